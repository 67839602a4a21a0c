"""Latency: of one request, and its mean and quantiles over requests, gaps or tokens.

Quantiles are observed values (``stats.quantile``); ``itl`` weighs each gap by the tokens it
brought. Intervals resample whole units of timing, and before them the starts of the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Granularity, Trace
from specbench.metrics.timeline import (
    NS_PER_MS,
    decode_ns,
    decode_tokens,
    end_ns,
    finished,
    step_arrivals,
    token_arrivals,
)
from specbench.metrics.units import Pair, indices, label_starts, sums, time_labels
from specbench.stats.bootstrap import total_ratio
from specbench.stats.quantile import quantile_intervals

QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
Weighted = list[tuple[float, float]]
"""(value, weight) observations of one request."""


def ttft(trace: Trace) -> Quantity:
    """First token of any kind minus request start, ms."""
    missing = _absent(trace)
    if missing is not None:
        return missing
    return _ms(token_arrivals(trace)[0][0] - trace.start_ns)


def ttfo(trace: Trace) -> Quantity:
    """First visible token minus request start, ms; ``ttft`` where nothing is hidden before it.

    Nothing to measure where an output consists of reasoning alone.
    """
    if trace.first_visible_ns is not None and trace.granularity is not Granularity.REQUEST:
        return _ms(trace.first_visible_ns - trace.start_ns) if trace.ok else ttft(trace)
    first = ttft(trace)
    if first.known and not trace.text:
        return nothing("no token of the output is visible", "ms")
    return first


def tpot(trace: Trace) -> Quantity:
    """(t_last - t_first) / (N - tokens of the first arrival), ms."""
    missing = _absent(trace)
    if missing is not None:
        return missing
    if decode_tokens(trace) <= 0:
        return nothing("no token after the first arrival", "ms")
    return _ms(decode_ns(trace) / decode_tokens(trace))


def decode_time(trace: Trace) -> Quantity:
    """Last token minus first token, ms."""
    missing = _absent(trace)
    if missing is not None:
        return missing
    if len(token_arrivals(trace)) < 2:
        return nothing("no token after the first arrival", "ms")
    return _ms(decode_ns(trace))


def latency_e2e(trace: Trace) -> Quantity:
    """Last token minus request start, ms; the end of the request where it made no token."""
    end = end_ns(trace)
    if not trace.ok:
        return nothing(f"the request did not finish ({trace.finish})", "ms")
    if end is None:
        return nothing("no token and no recorded end", "ms")
    return _ms(end - trace.start_ns)


def gaps(trace: Trace) -> Weighted:
    """(gap in ms, tokens of the later arrival) for each two consecutive arrivals."""
    return _gaps(token_arrivals(trace))


def per_token_gaps(trace: Trace) -> Weighted:
    """(gap / tokens in ms, tokens): each token of a step, or arrival, waited its share of the gap.

    Steps where the engine shows them, else arrivals (``timeline.step_arrivals``).
    """
    return [(gap / tokens, tokens) for gap, tokens in _gaps(step_arrivals(trace))]


def per_request(
    traces: Sequence[Trace], metric: Callable[[Trace], Quantity], *, seed: int
) -> dict[str, Quantity]:
    """Mean, p50, p90 and p99 over requests of a metric of one request."""
    kept = finished(traces)
    found = [metric(trace) for trace in kept]
    reasons = [quantity for quantity in found if not quantity.known]
    rows = [[(quantity.number(), 1.0)] if quantity.known else [] for quantity in found]
    missing = reasons[0] if reasons else nothing("no finished request", "ms")
    return _summary(kept, rows, missing, seed)


def per_gap(traces: Sequence[Trace], *, per_token: bool, seed: int) -> dict[str, Quantity]:
    """Mean, p50, p90 and p99 of ``itl`` (per token) or ``itl_chunk`` (each gap counts once)."""
    kept = finished(traces)
    if any(trace.granularity is Granularity.REQUEST for trace in kept):
        missing = unavailable("the engine shows only whole requests", "ms")
        return dict.fromkeys(["mean", *QUANTILES], missing)
    rows = [
        per_token_gaps(trace) if per_token else [(gap, 1.0) for gap, _ in gaps(trace)]
        for trace in kept
    ]
    return _summary(kept, rows, nothing("no request has two arrivals", "ms"), seed)


def ttft_overhead(joined: Sequence[Pair], *, seed: int) -> dict[str, Quantity]:
    """TTFT of the arm minus TTFT of plain on the same request: what prefilling a draft costs."""
    rows: list[Weighted] = []
    missing = nothing("no request was finished by both arms", "ms")
    for pair in joined:
        arm, plain = ttft(pair.arm), ttft(pair.plain)
        both = arm.known and plain.known
        rows.append([(arm.number() - plain.number(), 1.0)] if both else [])
        if not both:
            missing = plain if arm.known else arm
    return _summary([pair.arm for pair in joined], rows, missing, seed)


def first_request(traces: Sequence[Trace]) -> Quantity:
    """TTFT of the request that started first, ms: it may have paid for a compilation (D9)."""
    kept = finished(traces)
    if not kept:
        return nothing("no finished request", "ms")
    return ttft(min(kept, key=lambda trace: trace.start_ns))


def _summary(
    traces: Sequence[Trace], rows: Sequence[Weighted], missing: Quantity, seed: int
) -> dict[str, Quantity]:
    held = [(trace, row) for trace, row in zip(traces, rows, strict=True) if row]
    if not held:
        return dict.fromkeys(["mean", *QUANTILES], missing)
    labels = time_labels([trace for trace, _ in held])
    totals = sums(labels, [sum(value * weight for value, weight in row) for _, row in held])
    weights = sums(labels, [sum(weight for _, weight in row) for _, row in held])
    starts = label_starts(labels, [trace for trace, _ in held])
    mean = total_ratio(totals, weights, seed=seed, unit="ms", groups=starts)
    observations = [
        (value, weight, label)
        for (_, row), label in zip(held, indices(labels), strict=True)
        for value, weight in row
    ]
    values, counts, clusters = zip(*observations, strict=True)
    qs = tuple(QUANTILES.values())
    found = quantile_intervals(values, counts, clusters, qs, seed=seed, unit="ms", groups=starts)
    return {"mean": mean, **dict(zip(QUANTILES, found, strict=True))}


def _gaps(rows: Sequence[tuple[int, int]]) -> Weighted:
    return [
        ((later - earlier) / NS_PER_MS, tokens) for (earlier, _), (later, tokens) in pairwise(rows)
    ]


def _ms(nanoseconds: float) -> Quantity:
    return Quantity(nanoseconds / NS_PER_MS, "ms", n=1)


def _absent(trace: Trace) -> Quantity | None:
    if not trace.ok:
        return nothing(f"the request did not finish ({trace.finish})", "ms")
    if trace.granularity is Granularity.REQUEST:
        return unavailable("the engine shows only whole requests", "ms")
    if not token_arrivals(trace):
        return nothing("the request produced no token", "ms")
    return None
