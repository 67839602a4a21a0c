"""Where the time of the ticks went, from spans. Overlapping spans are never counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.core.quantity import Quantity, unavailable
from specbench.core.trace import Tick, TickKind
from specbench.metrics.timeline import NS_PER_MS, length

FORWARDS = frozenset({"draft", "draft_prefill", "prefill", "refill", "verify"})
"""Phases that are model forwards; everything else is host work around them."""

NO_TICKS = "the engine records no ticks"
NO_SPANS = "spans were off in this run (end-to-end timing only)"


def phases(ticks: Sequence[Tick]) -> dict[str, Quantity]:
    """Milliseconds per phase name over all ticks, and ``unattributed``.

    A phase is the union of its own spans, so that its host and device lanes count once. Phases
    may overlap each other; ``unattributed`` is what no span of any phase covers.
    """
    missing = _absent(ticks, "ms")
    if missing is not None:
        return {"unattributed": missing}
    names = dict.fromkeys(span.phase for tick in ticks for span in tick.spans)
    table = {name: _ms(covered(ticks, {name}), len(ticks)) for name in names}
    table["unattributed"] = _ms(_duration(ticks) - covered(ticks, names), len(ticks))
    return table


def span_coverage(ticks: Sequence[Tick]) -> Quantity:
    """Union of all spans over the duration of all ticks; METRICS asks for at least 0.98."""
    missing = _absent(ticks, "1")
    if missing is not None:
        return missing
    names = {span.phase for tick in ticks for span in tick.spans}
    return Quantity(covered(ticks, names) / _duration(ticks), "1", n=len(ticks))


def host_share(ticks: Sequence[Tick]) -> Quantity:
    """Share of decode tick time in which no model forward (``FORWARDS``) was running."""
    decode = [tick for tick in ticks if tick.kind is TickKind.DECODE]
    missing = _absent(decode, "1")
    if missing is not None:
        return missing
    return Quantity(1 - covered(decode, FORWARDS) / _duration(decode), "1", n=len(decode))


def _absent(ticks: Sequence[Tick], unit: str) -> Quantity | None:
    if not ticks or _duration(ticks) == 0:
        return unavailable(NO_TICKS, unit)
    if not any(tick.spans for tick in ticks):
        return unavailable(NO_SPANS, unit)
    return None


def _duration(ticks: Sequence[Tick]) -> int:
    return sum(tick.end_ns - tick.start_ns for tick in ticks)


def covered(ticks: Sequence[Tick], names: Iterable[str]) -> int:
    """Nanoseconds of these ticks in which a span of one of these phases was running."""
    wanted = set(names)
    return sum(
        length(
            (max(span.start_ns, tick.start_ns), min(span.end_ns, tick.end_ns))
            for span in tick.spans
            if span.phase in wanted
        )
        for tick in ticks
    )


def _ms(nanoseconds: int, n: int) -> Quantity:
    return Quantity(nanoseconds / NS_PER_MS, "ms", n=n)
