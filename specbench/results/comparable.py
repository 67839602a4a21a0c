"""Whether runs may stand in one table: all that decides what was measured must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations

from specbench.core.manifest import UNKNOWN, Manifest
from specbench.errors import NotComparable, UsageError
from specbench.results.resume import differences


def require_comparable(manifests: Sequence[Manifest], assume_same: bool = False) -> tuple[str, ...]:
    """Refuse runs whose identities differ; what is unknown equals nothing.

    Args:
        assume_same: take what is unknown of a run as equal.

    Returns:
        The keys that were taken as equal without being known, in the order of the identity.

    Raises:
        UsageError: a run is there twice.
        NotComparable: names every key that differs, with both values.
    """
    taken: dict[str, None] = {}
    for one, two in combinations(manifests, 2):
        if one.run == two.run:
            raise UsageError(f"the same run twice: {one.run}", "name another run")
        unknown = _unknown(one, two)
        found = [
            f"{key}: {before} != {after}"
            for key, before, after in differences(asdict(one.identity), asdict(two.identity))
            if key not in unknown
        ]
        _refuse(one, two, found, [] if assume_same else [*unknown.values()])
        taken |= dict.fromkeys(unknown)
    return tuple(taken)


def _refuse(one: Manifest, two: Manifest, found: Sequence[str], unknown: Sequence[str]) -> None:
    reasons = "; ".join([*found, *unknown])
    if found:
        raise NotComparable(
            f"runs {one.run} and {two.run} did not measure the same: {reasons}",
            "run one experiment on each engine: specbench run EXPERIMENT --engine NAME",
        )
    if unknown:
        raise NotComparable(
            f"runs {one.run} and {two.run} may not have measured the same: {reasons}",
            "the server does not say its weights, or what else is unknown here; where you know "
            "that it is the same, add --assume-same",
        )


def _unknown(one: Manifest, two: Manifest) -> dict[str, str]:
    """Keys that one of two runs does not know, with who."""
    found: dict[str, str] = {}
    mine, others = asdict(one.identity), asdict(two.identity)
    for key in mine:
        runs = [run.run for run, said in ((one, mine), (two, others)) if said[key] == UNKNOWN]
        if runs:
            found[key] = f"{key}: unknown" + (f" of {runs[0]}" if len(runs) == 1 else "")
    return found
