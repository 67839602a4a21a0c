"""Speed-up of shorter chains, predicted from a run of the longest: to choose what to measure.

Only for drafters of which a shorter draft is the beginning of a longer one. Two things are taken as
equal that are not quite: a step of a shorter chain begins at other places than one of the longest,
and the cost of a step is taken as linear in K between those that were timed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from specbench.core.trace import Trace
from specbench.metrics.acceptance import accept_pos, draft_coverage


def shorter_lengths(traces: Sequence[Trace], ks: Sequence[int]) -> dict[int, float]:
    """Accept length by K, tokens per step: 1 + sum over j <= K of the share of all steps that
    accepted j or more.

    Args:
        traces: of the longest chain; empty where none of them shows its steps.
        ks: lengths, each at most the longest.
    """
    found = accept_pos(traces)
    if "accepted_1" not in found:
        return {}
    accepted = {
        int(name.removeprefix("accepted_")): quantity.number() / quantity.n
        for name, quantity in found.items()
        if name.startswith("accepted_")
    }
    return {k: 1 + sum(share for j, share in accepted.items() if j <= k) for k in ks}


def step_at(k: int, known: Mapping[int, float]) -> float:
    """Cost of a step that drafts ``k`` tokens, on the line through the two nearest known ones.

    Args:
        known: K -> cost in decode steps of plain, two or more.
    """
    ks = sorted(known)
    place = min(max(bisect_left(ks, k), 1), len(ks) - 1)
    low, high = ks[place - 1], ks[place]
    slope = (known[high] - known[low]) / (high - low)
    return known[low] + slope * (k - low)


def shorter_speedups(
    traces: Sequence[Trace],
    ks: Sequence[int],
    costs: Mapping[int, float],
    idle: float,
    *,
    seed: int,
) -> dict[int, float]:
    """Predicted speed-up by K, x: E / (share x step + (1 - share) x idle).

    Args:
        traces: of the longest chain.
        ks: lengths that are predicted.
        costs: K -> cost of a step that drafts, in decode steps of plain; two or more.
        idle: cost of a step that drafts nothing.
        seed: of intervals that are not used here.

    Returns:
        Empty where the engine shows no steps.
    """
    lengths = shorter_lengths(traces, ks)
    coverage = draft_coverage(traces, seed=seed)
    if not lengths or not coverage.known:
        return {}
    share = coverage.number()
    return {
        k: length / (share * step_at(k, costs) + (1 - share) * idle)
        for k, length in lengths.items()
    }
