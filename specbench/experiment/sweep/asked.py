"""What a sweep is asked for, from the command line and the experiment, checked before it begins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, cast

from specbench.catalog import SERVERS, nearest
from specbench.errors import UsageError
from specbench.experiment.arms import resolved
from specbench.experiment.schema import Arm, Experiment
from specbench.experiment.server_keys import attached
from specbench.metrics.goodput import LATENCIES, Objective
from specbench.results.sweep.candidates import Candidate, named

MS = {"ms": 1.0, "s": 1000.0}
PREDICTED = ("native", "scripted")
"""Engines in this process that decode with the drafters of the catalogue and time their steps."""
FEWEST_TO_PREDICT = 4
"""K of one arm from which on a prediction saves more runs than it takes."""


class Info(Protocol):
    """What is asked of ``decoding.protocols.DrafterInfo``, which needs torch."""

    def begins_alike(self, options: dict[str, object]) -> bool:
        """Whether a shorter draft is surely the beginning of a longer one."""
        ...


def whole_numbers(text: str, option: str) -> tuple[int, ...]:
    """Different whole numbers of at least 1, as ``1,4,16``, in ascending order.

    Raises:
        UsageError: anything else.
    """
    words = [word.strip() for word in text.split(",")]
    example = f"write for example {option} 1,4,16"
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"{option} {text}: not whole numbers with commas between", example)
    found = [int(word) for word in words]
    if 0 in found and option == "--k":
        raise UsageError(
            "--k 0: speculation with empty drafts is another arm than plain",
            "leave it out: plain is always among the candidates; `specbench run -k 0` measures it",
        )
    if 0 in found:
        raise UsageError(f"{option} {text}: 0 is too small", example)
    if len(set(found)) < len(found):
        raise UsageError(f"{option} {text}: a number is there twice", example)
    return tuple(sorted(found))


def objectives(text: str | None) -> tuple[Objective, ...]:
    """Bounds on latencies, as ``ttft=500ms,itl=50ms``.

    Raises:
        UsageError: an unknown latency, one that is there twice, or no duration.
    """
    found: dict[str, Objective] = {}
    for part in text.split(",") if text else ():
        name, _, limit = (word.strip() for word in part.partition("="))
        if name not in LATENCIES:
            raise UsageError(f"--slo {text}: unknown latency {name!r}", nearest(name, [*LATENCIES]))
        if name in found:
            raise UsageError(f"--slo {text}: {name} is there twice", "leave one of them out")
        duration = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)", limit)
        if duration is None or float(duration[1]) <= 0:
            raise UsageError(
                f"--slo {text}: {limit!r} is not a duration",
                "write for example --slo ttft=500ms,itl=50ms",
            )
        found[name] = Objective(name, float(duration[1]) * MS[duration[2]])
    return tuple(found.values())


def candidates(
    experiment: Experiment,
    ks: Sequence[int] = (),
    nodes: Sequence[int] = (),
    arms: Sequence[str] = (),
) -> tuple[Candidate, ...]:
    """Every arm that was asked for at every K and tree size.

    Args:
        ks: empty for 1, 2, 4 ... up to each arm's own k.
        nodes: tree sizes; empty for the arms' own.
        arms: names; empty for all arms that draft.

    Raises:
        UsageError: no arm, an unknown one, one without a dynamic tree that is to have tree sizes,
            or an attached server, which has the K it was started with.
    """
    _refuse(experiment)
    for name in arms:
        if name not in experiment.arm:
            raise UsageError(f"--arm {name}: no such arm", nearest(name, list(experiment.arm)))
    chosen = {name: experiment.arm[name] for name in arms or experiment.arm}
    if not chosen:
        raise UsageError("nothing to sweep: the experiment has no arm that drafts", "add --drafter")
    for name, arm in chosen.items():
        if nodes:
            tree_key(experiment, name, arm)
    found = [
        named(name, k, size)
        for name, arm in chosen.items()
        for k in ks or default_ks(arm.k)
        for size in nodes or (None,)
    ]
    if not found:
        raise UsageError("every arm has k = 0: there is no K to choose", "give --k 1,2,4")
    return tuple(found)


def default_ks(longest: int) -> tuple[int, ...]:
    """1, 2, 4 ... and the longest itself."""
    doubled = [2**i for i in range(longest.bit_length()) if 2**i < longest]
    return (*doubled, longest) if longest else ()


def _refuse(experiment: Experiment) -> None:
    if experiment.study is not None:
        raise UsageError(
            "a sweep of a study: it has a key of its own that differs", "remove the [study] table"
        )
    temperatures = experiment.workload.temperatures
    if len(temperatures) > 1:
        raise UsageError(
            f"a sweep is at one temperature, and the experiment has {temperatures}: the best K "
            "differs between them",
            f"add --temperature {temperatures[0]:g}",
        )
    if experiment.on_server and attached(experiment.server, experiment.arm):
        raise UsageError(
            "an attached server drafts with the K that it was started with",
            "leave the addresses out: a sweep starts its servers itself",
        )


def tree_key(experiment: Experiment, name: str, arm: Arm) -> str:
    """The option that holds the size of an arm's tree.

    Raises:
        UsageError: its drafts are no trees of a size that can be asked for.
    """
    if experiment.engine == "sglang":
        if int(str(arm.options.get("topk", 1))) > 1:
            return "tree_tokens"
        raise UsageError(f"--nodes: drafts of arm {name} are chains", "set its option topk above 1")
    if experiment.engine in SERVERS:
        raise UsageError(f"--nodes: {experiment.engine} has no trees", "leave it out")
    facts = resolved("drafters", arm.drafter).info.facts(arm.options)  # type: ignore[attr-defined]
    if facts.tree and arm.options.get("tree", "dynamic") == "dynamic":
        return "nodes"
    raise UsageError(
        f"--nodes: arm {name} has no dynamic tree", "set its option tree = 'dynamic', or leave it"
    )


def alike(experiment: Experiment) -> tuple[str, ...]:
    """Arms whose shorter drafts are beginnings of longer ones, on an engine that times steps."""
    if experiment.engine not in PREDICTED:
        return ()
    return tuple(
        name
        for name, arm in experiment.arm.items()
        if cast(Info, resolved("drafters", arm.drafter).info).begins_alike(arm.options)  # type: ignore[attr-defined]
    )


def scouts(found: Sequence[Candidate], arms: Sequence[str]) -> tuple[Candidate, ...]:
    """The shortest and the longest K of every arm that a prediction is of use for.

    Args:
        found: all candidates.
        arms: of which shorter drafts are beginnings of longer ones.
    """
    chosen: list[Candidate] = []
    for arm in arms:
        family = sorted((one for one in found if one.arm == arm), key=lambda one: one.k)
        if len(family) >= FEWEST_TO_PREDICT and all(one.nodes is None for one in family):
            chosen += [family[0], family[-1]]
    return tuple(chosen)
