"""Throughput: tokens per second of one user, end to end, and of the whole device."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Granularity, Trace
from specbench.metrics.timeline import (
    NS_PER_S,
    busy,
    decode_ns,
    decode_tokens,
    end_ns,
    finished,
    length,
    output_tokens,
    token_arrivals,
)
from specbench.metrics.units import label_starts, sums, time_labels
from specbench.stats.bootstrap import total_ratio

NO_REQUEST = "no finished request"


def tokens_per_s_user(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Decode speed of a request: pooled tokens after the first arrival per decode second."""
    if any(trace.granularity is Granularity.REQUEST for trace in finished(traces)):
        return unavailable("the engine shows only whole requests", "1/s")
    return _rate(traces, decode_tokens, decode_ns, seed, "no token after the first arrival")


def tokens_per_s_e2e(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Pooled output tokens per second between request start and last token."""
    return _rate(traces, output_tokens, e2e_ns, seed, NO_REQUEST)


def tokens_per_s_device(traces: Sequence[Trace]) -> Quantity:
    """Output tokens of all requests over the makespan (``timeline.busy``)."""
    kept = finished(traces)
    span = length(busy(kept))
    if not span:
        return nothing(NO_REQUEST, "1/s")
    return Quantity(sum(map(output_tokens, kept)) / span * NS_PER_S, "1/s", n=len(kept))


def tokens_per_s_peak(traces: Sequence[Trace]) -> Quantity:
    """Most tokens that arrived within one of the makespan's seconds, counted from its start."""
    seconds = tokens_by_second(traces)
    if not seconds:
        return nothing(NO_REQUEST, "1/s")
    return Quantity(float(max(seconds)), "1/s", n=len(seconds))


def tokens_by_second(traces: Sequence[Trace]) -> list[int]:
    """Tokens per second of the makespan; time in which no request was in flight is left out."""
    kept = finished(traces)
    stretches = busy(kept)
    starts = [start for start, _ in stretches]
    before = [0, *accumulate(end - start for start, end in stretches)]
    buckets: Counter[int] = Counter()
    for trace in kept:
        for t_ns, tokens in token_arrivals(trace):
            stretch = bisect_right(starts, t_ns) - 1
            elapsed = before[stretch] + t_ns - starts[stretch]
            # A token on the boundary ends the second before it, so that the seconds of a
            # makespan of exactly s seconds are s and not s + 1.
            buckets[max(0, -(-elapsed // int(NS_PER_S)) - 1)] += tokens
    return [buckets[second] for second in range(max(buckets) + 1)] if buckets else []


def e2e_ns(trace: Trace) -> int:
    """Last token minus request start; 0 where no end is known."""
    end = end_ns(trace)
    return 0 if end is None else end - trace.start_ns


def _rate(
    traces: Sequence[Trace],
    tokens: Callable[[Trace], int],
    nanoseconds: Callable[[Trace], int],
    seed: int,
    empty: str,
) -> Quantity:
    kept = finished(traces)
    labels = time_labels(kept)
    top = sums(labels, [float(tokens(trace)) for trace in kept])
    bottom = sums(labels, [nanoseconds(trace) / NS_PER_S for trace in kept])
    starts = label_starts(labels, kept)
    return total_ratio(top, bottom, seed=seed, unit="1/s", empty=empty, groups=starts)
