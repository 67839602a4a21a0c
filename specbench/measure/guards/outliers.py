"""Requests that waited for something else than decoding (case D9), and load that came late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.guard import Guard
from specbench.metrics.latency import ttft
from specbench.metrics.timeline import NS_PER_MS, finished
from specbench.stats.quantile import weighted_quantile

OUTLIER = 10.0
"""A TTFT above this many medians is a compilation or a stall, not a long prompt."""
FEWEST_FOR_OUTLIER = 4
LATE_MS, LATE_SHARE = 5.0, 0.05
"""An open-loop request that is sent later than both after it was due did not arrive as planned.

The share is of the median TTFT, counted from when requests were sent.
"""
QUEUED_MS = 50.0
"""No timer is that late: the request waited for a free place."""


def outlier_guards(arm: Sequence[Trace]) -> Iterator[Guard]:
    """A slow first request, slow later ones, and open-loop load that was sent late."""
    kept = sorted(finished(arm), key=lambda trace: trace.start_ns)
    yield from _slow(kept)
    yield from _late(kept)


def _slow(kept: Sequence[Trace]) -> Iterator[Guard]:
    timed = [(trace, found.number()) for trace in kept if (found := ttft(trace)).known]
    if len(timed) < FEWEST_FOR_OUTLIER:
        return
    values = [value for _, value in timed]
    median = _median(values)
    if values[0] > OUTLIER * median:
        yield Guard(
            "first_request_slow",
            f"first request: ttft {values[0]:.1f} ms against a median of {median:.1f} ms",
            "warm up with the measured shapes; it probably paid for a compilation",
        )
    slow = [trace for trace, value in timed[1:] if value > OUTLIER * median]
    if slow:
        yield Guard(
            "ttft_outlier",
            f"{len(slow)} later requests with ttft above {OUTLIER:g} medians, first "
            f"{slow[0].key.item}",
            "look for a shape that was not warmed up, or for another process",
        )


def _late(kept: Sequence[Trace]) -> Iterator[Guard]:
    late = [
        (trace.sent_ns - trace.start_ns) / NS_PER_MS for trace in kept if trace.sent_ns is not None
    ]
    if not late:
        return
    median = _median(late)
    limit = max(LATE_MS, LATE_SHARE * _answered(kept))
    if median > limit:
        share = sum(value > limit for value in late) / len(late)
        yield Guard(
            "late_requests",
            f"{share:.0%} of the requests were sent more than {limit:.3g} ms after they were due, "
            f"median {median:.1f} ms, largest {max(late):.1f} ms",
            _FULL if median > max(limit, QUEUED_MS) else _TIMER,
        )


_FULL = "latency counts this wait; raise the concurrency or lower the rate for the planned load"
_TIMER = "client timer: latency counts this wait; keep other work off the machine that sends"


def _answered(kept: Sequence[Trace]) -> float:
    """Median time in ms from when a request was really sent to its first token; 0 if unknown."""
    waits = [
        found.number() - ((trace.sent_ns or trace.start_ns) - trace.start_ns) / NS_PER_MS
        for trace in kept
        if (found := ttft(trace)).known
    ]
    return _median(waits) if waits else 0.0


def _median(values: Sequence[float]) -> float:
    return weighted_quantile(values, [1.0] * len(values), 0.5)
