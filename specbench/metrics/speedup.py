"""Speed-up: time per committed token, plain over arm, on the same requests.

A ratio of totals, never a mean of ratios: four equal texts at 1.75, 1.49, 0.87 and 0.55 take
longer in total, 0.95, though the mean of the ratios is 1.17 (case D13).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Granularity, Trace
from specbench.metrics.throughput import e2e_ns
from specbench.metrics.timeline import (
    NS_PER_S,
    busy,
    decode_ns,
    decode_tokens,
    length,
    output_tokens,
)
from specbench.metrics.units import Pair, label_starts, open_loop, time_labels
from specbench.stats.bootstrap import ratio_interval
from specbench.stats.power import detectable_difference

Columns = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class UnitTotals:
    """Seconds and tokens of both arms per independent unit; what the bootstrap resamples.

    ``basis`` names the time: "decode time", "request time" or "makespan", and an open loop;
    ``starts`` the start of the servers that each unit belongs to.
    """

    units: tuple[str, ...]
    time_plain: tuple[float, ...]
    tokens_plain: tuple[float, ...]
    time_arm: tuple[float, ...]
    tokens_arm: tuple[float, ...]
    basis: str
    starts: tuple[int, ...] = ()

    @property
    def columns(self) -> Columns:
        """The four arrays in the order of ``ratio_interval``."""
        return self.time_plain, self.tokens_plain, self.time_arm, self.tokens_arm


def unit_totals(joined: Sequence[Pair], *, prefill: bool) -> UnitTotals:
    """Totals per unit of timing.

    At concurrency 1 the times of the requests add up: decode time over the tokens after the
    first arrival, or with ``prefill`` request start to last token over all tokens. At concurrency
    above 1 requests overlap, so a unit (a block of prompts) is measured by its makespan over all
    its tokens, prefill included in either case. With open arrivals it is the arrival rate that
    fixes the makespan, whatever the arm does: the times of the requests are added up there too.
    """
    together = _by_makespan(joined)
    blocks: dict[str, list[Pair]] = {}
    labels = _labels(joined, together)
    for pair, label in zip(joined, labels, strict=True):
        blocks.setdefault(label, []).append(pair)
    whole = together or prefill
    tokens = output_tokens if whole else decode_tokens
    arms = [[pair.arm for pair in block] for block in blocks.values()]
    plains = [[pair.plain for pair in block] for block in blocks.values()]

    def seconds(traces: Sequence[Trace]) -> float:
        if together:
            return length(busy(traces)) / NS_PER_S
        return _total(traces, e2e_ns if prefill else decode_ns) / NS_PER_S

    return UnitTotals(
        units=tuple(blocks),
        time_plain=tuple(map(seconds, plains)),
        tokens_plain=tuple(_total(traces, tokens) for traces in plains),
        time_arm=tuple(map(seconds, arms)),
        tokens_arm=tuple(_total(traces, tokens) for traces in arms),
        basis=_basis(joined, prefill),
        starts=tuple(label_starts(labels, [pair.arm for pair in joined])),
    )


def speedup(joined: Sequence[Pair], *, seed: int) -> Quantity:
    """Decode time per committed token, plain / arm; ``unit_totals`` says where the makespan."""
    return _speedup(joined, prefill=False, seed=seed)


def speedup_e2e(joined: Sequence[Pair], *, seed: int) -> Quantity:
    """The same with prefill: request start to last token, per output token."""
    return _speedup(joined, prefill=True, seed=seed)


def detectable(joined: Sequence[Pair], *, seed: int) -> Quantity:
    """Smallest relative difference in ``speedup`` that this run could have shown, unit 1."""
    missing = _absent(joined, prefill=False)
    if missing is not None:
        return replace(missing, unit="1")
    totals = unit_totals(joined, prefill=False)
    return detectable_difference(*totals.columns, seed=seed, groups=totals.starts)


def _speedup(joined: Sequence[Pair], *, prefill: bool, seed: int) -> Quantity:
    missing = _absent(joined, prefill=prefill)
    if missing is not None:
        return missing
    totals = unit_totals(joined, prefill=prefill)
    found = ratio_interval(*totals.columns, seed=seed, groups=totals.starts)
    return replace(found, method=f"{found.method}; {totals.basis}") if found.known else found


def _absent(joined: Sequence[Pair], *, prefill: bool) -> Quantity | None:
    if not joined:
        return nothing("no request was finished by both arms", "x")
    traces = [trace for pair in joined for trace in (pair.arm, pair.plain)]
    whole = any(trace.granularity is Granularity.REQUEST for trace in traces)
    if whole and not prefill and not _by_makespan(joined):
        return unavailable("the engine shows only whole requests, no decode time", "x")
    return None


def _open(joined: Sequence[Pair]) -> bool:
    return any(open_loop(trace) for pair in joined for trace in (pair.arm, pair.plain))


def _by_makespan(joined: Sequence[Pair]) -> bool:
    return any(pair.arm.concurrency > 1 for pair in joined) and not _open(joined)


def _basis(joined: Sequence[Pair], prefill: bool) -> str:
    if _by_makespan(joined):
        return "makespan"
    summed = "request time" if prefill else "decode time"
    return f"{summed} of requests in an open loop" if _open(joined) else summed


def _labels(joined: Sequence[Pair], together: bool) -> list[str]:
    arms = [pair.arm for pair in joined]
    return [trace.unit for trace in arms] if together else time_labels(arms)


def _total(traces: Sequence[Trace], count: Callable[[Trace], int]) -> float:
    return float(sum(map(count, traces)))
