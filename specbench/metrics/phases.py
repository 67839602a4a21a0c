"""Where the time of the ticks went, from spans. Overlapping spans are never counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.core.quantity import Quantity, unavailable
from specbench.core.trace import Lane, Span, Tick, TickKind
from specbench.metrics.timeline import NS_PER_MS, length

FORWARDS = frozenset({"draft", "draft_prefill", "prefill", "refill", "verify"})
"""Phases that are model forwards; everything else is host work around them."""
OWN_WORK = frozenset({"commit", "evidence"})
"""Phases that are the host's alone."""
UNATTRIBUTED = "unattributed"
"""Name of the time of ticks that no phase covers."""

NO_DEVICE = "the device's own time was not taken (schedule in-order)"
NO_GRAPHS = "no step ran from captured graphs (target.graphs)"
NO_TICKS = "the engine records no ticks"
NO_SPANS = "spans were off in this run (end-to-end timing only)"


def phases(ticks: Sequence[Tick]) -> dict[str, Quantity]:
    """Milliseconds per phase over all ticks, and what is unattributed, as of ``by_phase``."""
    missing = _absent(ticks, "ms")
    if missing is not None:
        return {UNATTRIBUTED: missing}
    return {name: _ms(time, len(ticks)) for name, time in by_phase(ticks).items()}


def span_coverage(ticks: Sequence[Tick]) -> Quantity:
    """Union of all spans over the duration of all ticks; METRICS asks for at least 0.98."""
    missing = _absent(ticks, "1")
    if missing is not None:
        return missing
    return Quantity(covered(ticks) / _duration(ticks), "1", n=len(ticks))


def host_share(ticks: Sequence[Tick]) -> Quantity:
    """Share of decode tick time in which no model forward (``FORWARDS``) was running.

    Where the device has spans of its own they alone say when a forward ran: those of the host then
    only say when it was queued.
    """
    decode = _decode(ticks)
    missing = _absent(decode, "1")
    if missing is not None:
        return missing
    running = covered(decode, FORWARDS, _lane_of_forwards(decode))
    return Quantity(1 - running / _duration(decode), "1", n=len(decode))


def hidden_share(ticks: Sequence[Tick]) -> Quantity:
    """Share of the host's own work in decode ticks during which the device ran a forward."""
    decode = _decode(ticks)
    missing = _absent(decode, "1")
    if missing is not None:
        return missing
    if _lane_of_forwards(decode) is None:
        return unavailable(NO_DEVICE, "1")
    own = covered(decode, OWN_WORK, Lane.HOST)
    if not own:
        return unavailable(NO_SPANS, "1")
    both = sum(
        length(host) + length(device) - length([*host, *device])
        for host, device in (
            (_spans(tick, OWN_WORK, Lane.HOST), _spans(tick, FORWARDS, Lane.DEVICE))
            for tick in decode
        )
    )
    return Quantity(both / own, "1", n=len(decode))


def graph_share(ticks: Sequence[Tick]) -> Quantity:
    """Share of decode ticks whose forwards were all replayed from captured graphs."""
    decode = _decode(ticks)
    if not decode:
        return unavailable(NO_TICKS, "1")
    replayed = sum(tick.graph for tick in decode)
    if not replayed:
        return unavailable(NO_GRAPHS, "1")
    return Quantity(replayed / len(decode), "1", n=len(decode))


def _decode(ticks: Sequence[Tick]) -> list[Tick]:
    return [tick for tick in ticks if tick.kind is TickKind.DECODE]


def _lane_of_forwards(ticks: Sequence[Tick]) -> Lane | None:
    """The device, where it has spans; None for all lanes."""
    timed = any(span.lane is Lane.DEVICE for tick in ticks for span in tick.spans)
    return Lane.DEVICE if timed else None


def _absent(ticks: Sequence[Tick], unit: str) -> Quantity | None:
    if not ticks or _duration(ticks) == 0:
        return unavailable(NO_TICKS, unit)
    if not any(tick.spans for tick in ticks):
        return unavailable(NO_SPANS, unit)
    return None


def _duration(ticks: Sequence[Tick]) -> int:
    return sum(tick.end_ns - tick.start_ns for tick in ticks)


def covered(
    ticks: Sequence[Tick], names: Iterable[str] | None = None, lane: Lane | None = None
) -> int:
    """Nanoseconds of these ticks in which a span was running.

    Args:
        names: phases whose spans count; None = all.
        lane: whose spans count; None = all.
    """
    wanted = None if names is None else frozenset(names)
    return sum(length(_spans(tick, wanted, lane)) for tick in ticks)


def by_phase(ticks: Sequence[Tick]) -> dict[str, int]:
    """Nanoseconds of these ticks per phase, and ``UNATTRIBUTED``.

    A phase is the union of its own spans, so that its host and device lanes count once. Phases may
    overlap each other; unattributed is what no span of any phase covers.
    """
    found: dict[str, int] = {}
    for tick in ticks:
        own: dict[str, list[tuple[int, int]]] = {}
        for span in tick.spans:
            own.setdefault(span.phase, []).append(_cut(span, tick))
        for phase, intervals in own.items():
            found[phase] = found.get(phase, 0) + length(intervals)
    return found | {UNATTRIBUTED: _duration(ticks) - covered(ticks)}


def _spans(tick: Tick, names: frozenset[str] | None, lane: Lane | None) -> list[tuple[int, int]]:
    return [
        _cut(span, tick)
        for span in tick.spans
        if (names is None or span.phase in names) and lane in (None, span.lane)
    ]


def _cut(span: Span, tick: Tick) -> tuple[int, int]:
    """A span as far as it is in its tick."""
    return max(span.start_ns, tick.start_ns), min(span.end_ns, tick.end_ns)


def _ms(nanoseconds: int, n: int) -> Quantity:
    return Quantity(nanoseconds / NS_PER_MS, "ms", n=n)
