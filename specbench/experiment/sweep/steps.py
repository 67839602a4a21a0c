"""The experiment of one step of a sweep: some candidates, one load, so many prompts of a split."""

from __future__ import annotations

from dataclasses import replace

from specbench.experiment.load import Loaded
from specbench.experiment.prepare import Prepared, prepare
from specbench.experiment.schema import Arm, Experiment
from specbench.experiment.sweep.asked import tree_key
from specbench.results.sweep.candidates import Candidate
from specbench.results.sweep.course import CONFIRM, RUNG, Step

CHOOSING, CONFIRMING = "dev", "test"
"""Splits: K is chosen on one and confirmed on the other."""


def split_of(step: Step) -> str:
    """The split whose prompts a step measures."""
    return CONFIRMING if step.kind == CONFIRM else CHOOSING


def words(step: Step) -> str:
    """A step in words."""
    if step.kind == RUNG:
        return f"rung {step.number}"
    return "confirmation" if step.kind == CONFIRM else "longest and shortest K"


def prepare_step(loaded: Loaded, load: int, step: Step, sweep: str = "") -> Prepared:
    """The checked experiment of a step.

    Args:
        sweep: its name, for the titles of runs.

    Raises:
        UsageError, PrerequisiteError: as ``prepare``.
    """
    experiment = loaded.experiment
    given = experiment.workload.limit
    limit = given if step.limit is None else step.limit
    workload = experiment.workload.model_copy(
        update={"split": split_of(step), "limit": limit, "concurrency": [load]}
    )
    title = f"{experiment.title or experiment.name}, load {load}, {words(step)}"
    member = experiment.model_copy(
        update={
            "title": title,
            "workload": workload,
            "arm": {one.name: arm_of(experiment, one) for one in step.candidates},
        }
    )
    passed = f"# {words(step)} at load {load} of sweep {sweep}\n{loaded.passed}"
    return prepare(replace(loaded, experiment=member, passed=passed))


def arm_of(experiment: Experiment, candidate: Candidate) -> Arm:
    """The [arm] table of a candidate."""
    arm = experiment.arm[candidate.arm]
    options = arm.options
    if candidate.nodes is not None:
        options = {**options, tree_key(experiment, candidate.arm, arm): candidate.nodes}
    return arm.model_copy(update={"k": candidate.k, "options": options})


def choice(sweep: str, load: int, step: Step) -> dict[str, object]:
    """How K came to be what it is, for the manifest of a step's run."""
    facts: dict[str, object] = {"sweep": sweep, "load": load, "step": step.folder}
    if step.kind != CONFIRM:
        return {**facts, "choosing": True}
    text = f"on the {CHOOSING} split, by sweep {sweep}"
    return {**facts, "choosing": False, "split": CHOOSING, "text": text}
