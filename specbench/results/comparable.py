"""Whether runs may stand in one table: all that decides what was measured must be equal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from specbench.catalog import nearest
from specbench.core.manifest import UNKNOWN, Manifest
from specbench.errors import NotComparable, UsageError
from specbench.results.resume import differences

ON_ENGINES = "run one experiment on each engine: specbench run EXPERIMENT --engine NAME"


def require_comparable(
    manifests: Sequence[Manifest],
    assume_same: bool = False,
    *,
    lifted: Collection[str] = (),
    way_on: str = ON_ENGINES,
) -> tuple[str, ...]:
    """Refuse runs whose identities differ; what is unknown equals nothing.

    Args:
        assume_same: take what is unknown of a run as equal.
        lifted: keys that may differ; ``sampling.top_p`` is that setting of every temperature.
        way_on: what to do about runs that differ.

    Returns:
        The keys that were taken as equal without being known, in the order of the identity.

    Raises:
        UsageError: a run is there twice, or no identity has such a key.
        NotComparable: names every key that differs, with both values.
    """
    taken: dict[str, None] = {}
    for one, two in combinations(manifests, 2):
        if one.run == two.run:
            raise UsageError(f"the same run twice: {one.run}", "name another run")
        mine, others = _identity(one, lifted), _identity(two, lifted)
        unknown = _unknown(one.run, two.run, mine, others)
        found = [
            f"{key}: {before} != {after}"
            for key, before, after in differences(mine, others)
            if key not in unknown
        ]
        _refuse(one, two, found, [] if assume_same else [*unknown.values()], way_on)
        taken |= dict.fromkeys(unknown)
    return tuple(taken)


def _identity(manifest: Manifest, lifted: Collection[str]) -> dict[str, Any]:
    """The identity without what may differ."""
    found = asdict(manifest.identity)
    for key in lifted:
        outer, _, inner = key.partition(".")
        if outer not in found or (inner and not _settings(found[outer])):
            raise UsageError(f"{key} is no key of a run's identity", nearest(key, list(found)))
        if inner:
            found[outer] = [
                {name: value for name, value in entry.items() if name != inner}
                for entry in found[outer]
            ]
        else:
            found.pop(outer)
    return found


def _settings(value: object) -> bool:
    """Whether a value of an identity has keys of its own, by temperature."""
    return isinstance(value, list | tuple) and all(isinstance(entry, dict) for entry in value)


def _refuse(
    one: Manifest,
    two: Manifest,
    found: Sequence[str],
    unknown: Sequence[str],
    way_on: str,
) -> None:
    reasons = "; ".join([*found, *unknown])
    if found:
        raise NotComparable(
            f"runs {one.run} and {two.run} did not measure the same: {reasons}", way_on
        )
    if unknown:
        raise NotComparable(
            f"runs {one.run} and {two.run} may not have measured the same: {reasons}",
            "the server does not say its weights, or what else is unknown here; where you know "
            "that it is the same, add --assume-same",
        )


def _unknown(one: str, two: str, mine: dict[str, Any], others: dict[str, Any]) -> dict[str, str]:
    """Keys that one of two runs does not know, with which."""
    found: dict[str, str] = {}
    for key in mine:
        runs = [run for run, said in ((one, mine), (two, others)) if said[key] == UNKNOWN]
        if runs:
            found[key] = f"{key}: unknown" + (f" of {runs[0]}" if len(runs) == 1 else "")
    return found
