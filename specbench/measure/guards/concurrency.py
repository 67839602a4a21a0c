"""Acceptance that depends on who shares the batch (case A10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.quantity import Quantity
from specbench.core.trace import Trace
from specbench.measure.guards.guard import Guard
from specbench.metrics.timeline import finished
from specbench.metrics.totals import tally_of
from specbench.metrics.units import item_sums
from specbench.stats.bootstrap import ratio_interval

UNPAIRED_DRIFT = 0.05
"""Relative change of accept length that counts where too few items allow no interval."""


def concurrency_guard(by_concurrency: Mapping[int, Sequence[Trace]], *, seed: int) -> list[Guard]:
    """Acceptance must not depend on who shares the batch (case A10).

    Compares accept length at each concurrency with that at the lowest, on the same requests: the
    paired interval must contain 1, or, with too few items for an interval, the ratio must be
    within 5 %. Totals of a request stand in where an engine shows no steps; those of counter
    windows do not, since they are of no single request.
    """
    if len(by_concurrency) < 2:
        return []
    lowest = min(by_concurrency)
    found = []
    for level in sorted(set(by_concurrency) - {lowest}):
        ratio = _accept_length_ratio(by_concurrency[level], by_concurrency[lowest], seed)
        if ratio is None or not ratio.known:
            continue
        if ratio.low is not None and ratio.high is not None:
            drifted = not ratio.low <= 1.0 <= ratio.high
        else:
            drifted = abs(ratio.number() - 1.0) > UNPAIRED_DRIFT
        if drifted:
            found.append(
                Guard(
                    "acceptance_by_concurrency",
                    "acceptance depends on concurrency: accept length at "
                    f"{level} is {ratio.number():.3f} of that at {lowest}",
                    "check positions and padding of rows that accept different lengths",
                )
            )
    return found


def _accept_length_ratio(high: Sequence[Trace], low: Sequence[Trace], seed: int) -> Quantity | None:
    """Accept length of one concurrency over another on the requests that both finished."""
    by_key = {trace.key: trace for trace in finished(low) if _told(trace)}
    # Steps and totals do not mean quite the same: like is compared with like.
    kept = [
        trace
        for trace in finished(high)
        if _told(trace)
        and (other := by_key.get(trace.key)) is not None
        and other.granularity is trace.granularity
    ]
    if not kept:
        return None
    others = [by_key[trace.key] for trace in kept]
    return ratio_interval(
        item_sums(kept, _committed),
        item_sums(kept, _steps),
        item_sums(others, _committed),
        item_sums(others, _steps),
        seed=seed,
    )


def _told(trace: Trace) -> bool:
    tally = tally_of(trace)
    return tally is not None and bool(tally.steps) and tally.committed is not None


def _committed(trace: Trace) -> float:
    tally = tally_of(trace)
    return (tally.committed or 0) if tally is not None else 0


def _steps(trace: Trace) -> float:
    tally = tally_of(trace)
    return (tally.steps or 0) if tally is not None else 0
