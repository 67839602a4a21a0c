"""A study: one experiment run once for each value of one key, in a folder of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tomli_w

from specbench.core.manifest import digest
from specbench.errors import UsageError
from specbench.experiment.load import Loaded
from specbench.experiment.prepare import Prepared, prepare
from specbench.experiment.schema import Experiment
from specbench.results.store import new_run_id
from specbench.results.study import Member, StudyFolder, StudySummary, create_study, read_study


def member_experiments(loaded: Loaded) -> dict[str, Prepared]:
    """Value, as its run holds it, -> the experiment of that run, checked as any other is.

    Raises:
        UsageError, PrerequisiteError: as ``prepare``.
    """
    return {
        value: prepare(replace(loaded, experiment=member))
        for value, member in loaded.experiment.members()
    }


def begin_study(loaded: Loaded, out: Path) -> StudyFolder:
    """Make the folder of a study with everything that is known before its first run."""
    experiment = loaded.experiment
    resolved = experiment.resolved()
    summary = _planned(experiment, new_run_id(digest(resolved)))
    return create_study(out, summary, loaded.passed, tomli_w.dumps(resolved))


def _planned(experiment: Experiment, name: str) -> StudySummary:
    assert experiment.study is not None
    values = _values(experiment)
    members = tuple(Member(value, "", False, "not begun") for value in values)
    title = experiment.title or experiment.name
    return StudySummary(name, title, experiment.study.key, values, members=members)


def _values(experiment: Experiment) -> tuple[str, ...]:
    return tuple(value for value, _ in experiment.members())


def refuse_other_study(folder: StudyFolder, experiment: Experiment) -> None:
    """Refuse to continue a study as another one.

    Raises:
        UsageError: names what changed.
    """
    asked, begun = experiment.study, read_study(folder)
    if asked is None:
        raise UsageError(
            f"{folder.path} is a study, and this experiment is none",
            "leave the experiment out: --resume reads the study's own",
        )
    values = _values(experiment)
    if (asked.key, values) != (begun.key, begun.values):
        raise UsageError(
            f"study {begun.study} cannot be resumed: it varies {begun.key} over "
            f"{', '.join(begun.values)}, not {asked.key} over {', '.join(values)}",
            "start a new study without --resume",
        )
