"""Comparisons by draft position and by phase of a step, which only the traces tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from specbench.core.trace import TickKind, Trace
from specbench.metrics.phases import by_phase
from specbench.results.compare.joined import BASE, NEW, Joined
from specbench.results.compare.measures import NS_PER_MS, Measure, decode_tokens
from specbench.results.compare.rows import KEY
from specbench.results.compare.sides import Side
from specbench.results.read import Recorded, read_run

POSITION, PHASE = "position", "phase"


def detailed(joined: Joined, base: Side, new: Side, by: str) -> tuple[Joined, dict[str, Measure]]:
    """The joined requests with further columns, and the measures that are made of them.

    Args:
        by: ``position``: accepted per step that reached it, by draft position. ``phase``: time of
            a phase per token.
    """
    runs = {side.folder.path: read_run(side.folder) for side in (base, new)}
    found = {
        name: _DETAILS[by](runs[side.folder.path], side.arm.name)
        for name, side in ((BASE, base), (NEW, new))
    }
    names = dict.fromkeys(str(name) for told in found.values() for name in told if name not in KEY)
    if by == POSITION:
        # Two columns per position.
        measures = [_position(place) for place in range(1, len(names) // 2 + 1)]
    else:
        measures = [_phase(name) for name in names]
    tables = dict(joined.tables)
    for side, told in found.items():
        rows = tables[side].merge(told, on=KEY, how="left").reindex(columns=[*tables[side], *names])
        # What a request never came to is 0 of it; to leave the request out is to choose by outcome.
        tables[side] = rows.fillna(dict.fromkeys(names, 0.0))
    return replace(joined, tables=tables), {measure.name: measure for measure in measures}


def _position(place: int) -> Measure:
    return Measure(
        f"position {place}",
        "1",
        True,
        lambda of: of(f"accepted_{place}"),
        lambda of: of(f"reached_{place}"),
        False,
        f"position {place} was not reached by both",
    )


def _phase(name: str) -> Measure:
    return Measure(
        f"{name} per token",
        "ms",
        False,
        lambda of: of(name),
        decode_tokens,
        True,
        f"one side has no time in {name}",
    )


def _positions(recorded: Recorded, arm: str) -> pd.DataFrame:
    """Steps that reached each position, and that accepted there, by request."""
    return pd.DataFrame([_place(trace) | _reached(trace) for trace in _of(recorded, arm)])


def _reached(trace: Trace) -> dict[str, float]:
    steps = list(zip(trace.steps.depths, trace.steps.accepted, strict=True))
    found: dict[str, float] = {}
    for place in range(1, max((depth for depth, _ in steps), default=0) + 1):
        found[f"reached_{place}"] = sum(d >= place and a >= place - 1 for d, a in steps)
        found[f"accepted_{place}"] = sum(a >= place for _, a in steps)
    return found


def _phases(recorded: Recorded, arm: str) -> pd.DataFrame:
    """Milliseconds of each phase in the decode steps of each request.

    A step that decodes several requests is shared out among them in equal parts.
    """
    traces = list(_of(recorded, arm))
    shared = Counter(tick for trace in traces for tick in trace.steps.tick)
    ticks = {
        tick.index: tick
        for (name, _), found in recorded.ticks.items()
        if name == arm
        for tick in found
        if tick.kind is TickKind.DECODE
    }
    costs = {index: by_phase([tick]) for index, tick in ticks.items()}
    rows = []
    for trace in traces:
        times: dict[str, float] = defaultdict(float)
        for tick in trace.steps.tick:
            for phase, ns in costs.get(tick, {}).items():
                times[phase] += ns / shared[tick]
        rows.append(_place(trace) | {name: ns / NS_PER_MS for name, ns in times.items()})
    return pd.DataFrame(rows)


def _of(recorded: Recorded, arm: str) -> Iterator[Trace]:
    return (trace for trace in recorded.traces.values() if trace.arm == arm and trace.ok)


def _place(trace: Trace) -> dict[str, Any]:
    key = trace.key
    values = (key.suite, key.item, key.turn, key.temperature, key.repeat, trace.concurrency)
    return dict(zip(KEY, values, strict=True))


_DETAILS: dict[str, Callable[[Recorded, str], pd.DataFrame]] = {
    POSITION: _positions,
    PHASE: _phases,
}
DETAILS = tuple(_DETAILS)
"""Splits that read the traces."""
