"""What a sweep recommends, to be pasted: a server's speculation, or an acceptance profile."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from specbench.core.arm import PLAIN, ArmSpec
from specbench.engines.servers import sglang, vllm
from specbench.engines.servers.protocol import Launcher
from specbench.errors import UsageError
from specbench.experiment.schema import Experiment
from specbench.experiment.sweep.steps import arm_of
from specbench.results.definitions import DEFINITIONS
from specbench.results.schema import strict_json
from specbench.results.summary import Figure
from specbench.results.sweep.candidates import Candidate
from specbench.results.sweep.summary import Confirmed, Recommended, SweepSummary

FORMS = ("vllm", "sglang", "profile")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How drafters and options of this process are called by a kind of server.

    Attributes:
        drafters: ours -> its own, where they differ.
        options: ours -> its own, where they differ.
    """

    drafters: Mapping[str, str]
    options: Mapping[str, str]


SAME_HEADS = {"eagle1": "eagle", "eagle2": "eagle"}
DIALECTS = {
    "vllm": Dialect(
        SAME_HEADS,
        {
            "depth": "max_tree_depth",
            "factor": "max_spec_factor",
            "min_prob": "min_token_prob",
            "answers": "max_cached_requests",
        },
    ),
    "sglang": Dialect(SAME_HEADS, {"top_k": "topk", "nodes": "tree_tokens"}),
}
LAUNCHERS: Mapping[str, Launcher] = {"vllm": vllm.LAUNCHER, "sglang": sglang.LAUNCHER}
OFFERS = {"vllm": vllm.DRAFTERS, "sglang": sglang.DRAFTERS}


def emitted(summary: SweepSummary, experiment: Experiment, form: str) -> str:
    """What is recommended at every load that was answered, as text to paste.

    Args:
        experiment: the sweep's.
        form: of ``FORMS``.

    Raises:
        UsageError: nothing is recommended yet, or the server has no such drafter.
    """
    if not summary.recommended:
        raise UsageError(
            f"sweep {summary.sweep} recommends nothing yet",
            "finish it: specbench sweep --resume FOLDER",
        )
    if form == "profile":
        return strict_json(_profiles(summary, experiment))
    return "".join(f"{line}\n" for line in _flags(summary, experiment, form))


def _flags(summary: SweepSummary, experiment: Experiment, server: str) -> Iterator[str]:
    by_name = {one.name: one for one in summary.asked.candidates}
    if experiment.engine != server:
        # What a step costs, and so which K pays, is the engine's.
        yield f"# measured on engine {experiment.engine}; sweep with --engine {server} to be sure"
    for answer in summary.recommended:
        if answer.name in ("", PLAIN):
            what = "plain decoding, no flags" if answer.name else "nothing is recommended"
            yield f"# load {answer.load}: {what}"
            continue
        candidate = by_name[answer.name]
        arm, left_out = server_arm(experiment, candidate, server)
        yield f"# load {answer.load}: K = {answer.k} ({answer.name})"
        yield from (f"# {line}" for line in left_out)
        if server == "vllm":
            config = json.dumps(vllm.speculative_config(arm))
            yield f"--speculative-config {shlex.quote(config)}"
        else:
            yield shlex.join(sglang.speculation(arm))


def server_arm(
    experiment: Experiment, candidate: Candidate, server: str
) -> tuple[ArmSpec, list[str]]:
    """A candidate as an arm of a kind of server, and what of it that server does not know.

    Raises:
        UsageError: it has no such drafter, or the drafter needs an option that is not there.
    """
    arm, launcher = arm_of(experiment, candidate), LAUNCHERS[server]
    if experiment.engine == server:
        return _checked(
            ArmSpec(
                candidate.name, arm.drafter, arm.k, arm.rule, server, arm.options, arm.rule_options
            ),
            server,
        ), []
    dialect = DIALECTS[server]
    drafter = dialect.drafters.get(arm.drafter, arm.drafter)
    if drafter not in launcher.drafters:
        known = ", ".join(name for name in launcher.drafters if name != "none")
        raise UsageError(
            f"--emit {server}: it has no drafter like {arm.drafter} of arm {candidate.arm}",
            f"it has {known}",
        )
    renamed = {dialect.options.get(name, name): value for name, value in arm.options.items()}
    offered = OFFERS[server][drafter].options
    kept = {name: value for name, value in renamed.items() if name in offered}
    notes = [
        f"left out, {server} does not know it: {name} = {value!r}"
        for name, value in renamed.items()
        if name not in offered
    ]
    rules = launcher.judged_by(drafter)
    rule, options = (arm.rule, arm.rule_options) if arm.rule in rules else (rules[0], {})
    if rule != arm.rule:
        notes.append(f"measured under rule {arm.rule}; {server} applies {rule}")
    made = ArmSpec(candidate.name, drafter, arm.k, rule, server, kept, options)
    return _checked(made, server), notes


def _checked(arm: ArmSpec, server: str) -> ArmSpec:
    LAUNCHERS[server].check(arm)
    return arm


def _profiles(summary: SweepSummary, experiment: Experiment) -> dict[str, object]:
    answers = {one.load: one for one in summary.recommended}
    by_name = {one.name: one for one in summary.asked.candidates}
    return {
        "schema_version": summary.schema_version,
        "sweep": summary.sweep,
        "target": summary.target,
        "device": summary.device,
        "temperature": summary.temperature,
        "definitions": {
            name: f"{DEFINITIONS[name].text} ({DEFINITIONS[name].unit})"
            for name in ("accept_pos", "accept_length")
        }
        | {
            "cumulative": "accepted / judged: the chance that positions 1 to k are all accepted",
            "conditional": "accepted / reached: position k, given all before it",
            "interval": "95 %, resampling prompts",
        },
        "profiles": [
            _profile(found, answers.get(found.load), by_name[found.name], experiment)
            for found in summary.confirmed
        ],
    }


def _profile(
    found: Confirmed, answer: Recommended | None, candidate: Candidate, experiment: Experiment
) -> dict[str, object]:
    arm = arm_of(experiment, candidate)
    return {
        "load": found.load,
        "candidate": found.name,
        "recommended": answer is not None and answer.name == found.name,
        "drafter": arm.drafter,
        "k": candidate.k,
        "nodes": candidate.nodes,
        "options": dict(arm.options),
        "rule": arm.rule,
        "split": found.split,
        "prompts": found.prompts,
        "accept_length": _figure(found.figures["accept_length"]),
        "positions": [
            {
                "position": one.position,
                "judged": one.judged,
                "reached": one.reached,
                "accepted": one.accepted,
                "cumulative": _figure(one.cumulative),
                "conditional": _figure(one.conditional),
            }
            for one in found.profile
        ],
    }


def _figure(figure: Figure) -> dict[str, object]:
    if figure.value is None:
        return {"value": None, "reason": figure.reason}
    return {"value": figure.value, "low": figure.low, "high": figure.high, "n": figure.n}
