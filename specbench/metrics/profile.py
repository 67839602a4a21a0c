"""Acceptance by draft position with intervals: what a simulator of speculation is fed."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.quantity import Quantity
from specbench.core.trace import Trace
from specbench.metrics.acceptance import accept_pos, stepped
from specbench.metrics.units import item_sums
from specbench.stats.bootstrap import total_ratio


def profile(traces: Sequence[Trace], *, seed: int) -> list[dict[str, Quantity]]:
    """By position from 1: ``judged``, ``reached``, ``accepted`` (steps), ``cumulative`` and
    ``conditional`` (rates, unit 1), the rates with intervals that resample prompts.

    Definitions are those of metric ``accept_pos``. Empty where no steps are known or drafted.
    """
    counts = accept_pos(traces)
    kept = stepped(traces)
    found = []
    k = 1
    while f"judged_{k}" in counts:
        judged, reached, accepted = (_sums(kept, k, at) for at in (0, k - 1, k))
        found.append(
            {
                "judged": counts[f"judged_{k}"],
                "reached": counts[f"reached_{k}"],
                "accepted": counts[f"accepted_{k}"],
                "cumulative": total_ratio(accepted, judged, seed=seed, unit="1"),
                "conditional": total_ratio(
                    accepted, reached, seed=seed, unit="1", empty=f"position {k} was never reached"
                ),
            }
        )
        k += 1
    return found


def _sums(traces: Sequence[Trace], k: int, at: int) -> list[float]:
    """By prompt, steps that judged position ``k`` and accepted at least ``at`` tokens."""

    def count(trace: Trace) -> float:
        rows = zip(trace.steps.depths, trace.steps.accepted, strict=True)
        return sum(judged >= k and accepted >= at for judged, accepted in rows)

    return item_sums(traces, count)
