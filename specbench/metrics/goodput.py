"""Goodput: requests per second that meet every objective, and the share of requests that do.

An objective bounds one latency of one request. A request that failed meets none; one that was
skipped was never sent and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Finish, Granularity, Trace
from specbench.metrics.latency import latency_e2e, per_token_gaps, tpot, ttft
from specbench.metrics.timeline import NS_PER_S, busy, finished, length
from specbench.stats.proportion import wilson
from specbench.stats.quantile import weighted_quantile

TAIL = 0.95
"""Share of a request's tokens that the objective ``itl`` bounds, and of the requests that must meet
all objectives."""


def itl_tail(trace: Trace) -> Quantity:
    """Per-token latency that 95 % of a request's tokens stay within, ms (``itl`` as in tables)."""
    if not trace.ok:
        return nothing(f"the request did not finish ({trace.finish})", "ms")
    if trace.granularity is Granularity.REQUEST:
        return unavailable("the engine shows only whole requests", "ms")
    gaps = per_token_gaps(trace)
    if not gaps:
        return nothing("no token after the first arrival", "ms")
    waited, tokens = zip(*gaps, strict=True)
    return Quantity(weighted_quantile(waited, tokens, TAIL), "ms", n=1)


LATENCIES: Mapping[str, Callable[[Trace], Quantity]] = {
    "ttft": ttft,
    "tpot": tpot,
    "itl": itl_tail,
    "e2e": latency_e2e,
}
"""What an objective may bound, by name."""


@dataclass(frozen=True, slots=True)
class Objective:
    """A bound on one latency of every request.

    Attributes:
        name: of ``LATENCIES``.
        limit_ms: the longest that it may be, milliseconds.
    """

    name: str
    limit_ms: float

    def __str__(self) -> str:
        return f"{self.name} <= {self.limit_ms:g} ms"

    def met(self, trace: Trace) -> bool:
        """Whether a request stays within; an answer of one token has no gap to bound."""
        found = LATENCIES[self.name](trace)
        return found.number() <= self.limit_ms if found.known else trace.ok


def attainment(traces: Sequence[Trace], objectives: Sequence[Objective]) -> Quantity:
    """Share of the requests that meet every objective, unit 1."""
    sent = [trace for trace in traces if trace.finish is not Finish.SKIPPED]
    return blind(sent, objectives, "1") or wilson(len(_good(sent, objectives)), len(sent))


def goodput(traces: Sequence[Trace], objectives: Sequence[Objective]) -> Quantity:
    """Requests per second of the makespan (``timeline.busy``) that meet every objective."""
    missing = blind(traces, objectives, "1/s")
    if missing is not None:
        return missing
    kept = finished(traces)
    span = length(busy(kept))
    if not span:
        return nothing("no finished request", "1/s")
    return Quantity(len(_good(kept, objectives)) / span * NS_PER_S, "1/s", n=len(kept))


def blind(traces: Sequence[Trace], objectives: Sequence[Objective], unit: str) -> Quantity | None:
    """Why it cannot be said who meets them, or None where it can."""
    whole = any(trace.granularity is Granularity.REQUEST for trace in finished(traces))
    if whole and any(one.name != "e2e" for one in objectives):
        return unavailable("the engine shows only whole requests", unit)
    return None


def _good(traces: Sequence[Trace], objectives: Sequence[Objective]) -> list[Trace]:
    return [t for t in finished(traces) if all(one.met(t) for one in objectives)]
