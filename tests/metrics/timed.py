"""Requests with the ticks that decoded them: times are given, counts follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.trace import Lane, Span, Tick, TickKind, Trace
from tests.metrics.traces import MS, trace

PREFILL_MS = 100

Phases = Mapping[str, float]
"""Milliseconds of each phase of a step; ``rest`` has no span."""


def decoded(
    item: str,
    steps: Sequence[tuple[int, int, Phases]],
    *,
    arm: str = "mtp",
    first_tick: int = 0,
    prefill_ms: float = PREFILL_MS,
    **fields: object,
) -> tuple[Trace, list[Tick]]:
    """A request alone on the engine: of each step the drafted nodes, the accepted, the phases."""
    now = prefill_ms
    ticks = [_tick(first_tick, TickKind.PREFILL, 0, {"prefill": prefill_ms})]
    arrivals = [(now, 1)]
    for place, (_, accepted, phases) in enumerate(steps, start=1):
        ticks.append(_tick(first_tick + place, TickKind.DECODE, now, phases))
        now += sum(phases.values())
        arrivals.append((now, accepted + 1))
    made = trace(
        item,
        arm=arm,
        verified=[nodes for nodes, _, _ in steps],
        accepted=[accepted for _, accepted, _ in steps],
        arrivals=arrivals,
        **fields,  # type: ignore[arg-type]
    )
    made.steps.tick = [first_tick + place for place in range(1, len(steps) + 1)]
    return made, ticks


def _tick(index: int, kind: TickKind, start_ms: float, phases: Phases) -> Tick:
    spans, now = [], start_ms
    for phase, length in phases.items():
        if phase != "rest":
            spans.append(Span(phase, Lane.HOST, round(now * MS), round((now + length) * MS)))
        now += length
    return Tick(index, kind, 1, 1, 1, False, round(start_ms * MS), round(now * MS), tuple(spans))
