"""Records of traces.jsonl: one JSON object per line, columnar, strict (no NaN, no Infinity)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from itertools import accumulate, pairwise, repeat
from operator import add, gt
from typing import Any, TypeVar

from pydantic_core import from_json

from specbench.core.request import RequestKey
from specbench.core.trace import (
    Arrivals,
    Counted,
    Evidence,
    Finish,
    Granularity,
    Lane,
    Span,
    Steps,
    Tally,
    Tick,
    TickKind,
    Trace,
    Window,
)

Columns = TypeVar("Columns", Steps, Arrivals, Evidence)

_KEY = tuple(f.name for f in fields(RequestKey))
_COLUMNAR = {"steps": Steps, "arrivals": Arrivals, "evidence": Evidence}
_PLAIN = tuple(f.name for f in fields(Trace) if f.name not in ("key", "tally", *_COLUMNAR))
_TICK = tuple(f.name for f in fields(Tick) if f.name != "spans")
_INFINITE = {math.inf: "inf", -math.inf: "-inf"}
_FINITE = {text: value for value, text in _INFINITE.items()}


def line(record: Mapping[str, object]) -> bytes:
    """The record as one line of strict JSON."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def parse_line(raw: bytes) -> dict[str, Any]:
    """The record behind a line; raises ValueError on anything but one strict JSON object."""
    # Reading a run is mostly this; pydantic's parser takes a third of the time of json's.
    record = from_json(raw, allow_inf_nan=False)
    if not isinstance(record, dict) or "record" not in record:
        raise ValueError("not a record")
    return record


def encode_trace(trace: Trace, tick_offset: int = 0) -> dict[str, object]:
    """A trace as JSON values.

    Infinite log-probabilities are written as "inf" and "-inf". A NaN has no value: it becomes
    null, and ``undefined`` names its column.
    """
    record: dict[str, object] = {"record": "trace"}
    record["key"] = {name: getattr(trace.key, name) for name in _KEY}
    record.update({name: getattr(trace, name) for name in _PLAIN})
    record["tally"] = None if trace.tally is None else asdict(trace.tally)
    undefined: list[str] = []
    for table in _COLUMNAR:
        columns = getattr(trace, table)
        record[table] = {
            f.name: _encode(getattr(columns, f.name), f"{table}.{f.name}", undefined)
            for f in fields(columns)
        }
    if not trace.steps.depth:
        del record["steps"]["depth"]  # type: ignore[attr-defined]
    if tick_offset:
        record["steps"]["tick"] = [tick + tick_offset for tick in trace.steps.tick]  # type: ignore[index]
    if undefined:
        record["undefined"] = undefined
    return record


def _encode(column: Sequence[Any], name: str, undefined: list[str]) -> list[Any]:
    if all(not isinstance(value, float) or math.isfinite(value) for value in column):
        return list(column)
    if any(isinstance(value, float) and math.isnan(value) for value in column):
        undefined.append(name)
    return [
        value if not isinstance(value, float) or math.isfinite(value) else _INFINITE.get(value)
        for value in column
    ]


def decode_trace(record: Mapping[str, Any]) -> Trace:
    """The trace behind a record; raises KeyError, TypeError or ValueError if it is not one."""
    # Files from before a field existed do not have it: its default is what it was.
    plain = {name: record[name] for name in _PLAIN if name in record}
    plain["granularity"] = Granularity(plain["granularity"])
    plain["finish"] = Finish(plain["finish"])
    plain["counted"] = Counted(plain.get("counted", Counted.IDS))
    tally = record.get("tally")
    return Trace(
        key=RequestKey(**{name: record["key"][name] for name in _KEY}),
        steps=_decode(Steps, record["steps"]),
        arrivals=_decode(Arrivals, record["arrivals"]),
        evidence=_decode(Evidence, record["evidence"]),
        tally=None if tally is None else Tally(**tally),
        **plain,
    )


def _decode(kind: type[Columns], columns: Mapping[str, list[Any]]) -> Columns:
    values: dict[str, Any] = dict(columns)
    if kind is Evidence:
        # The only floats; words for infinite ones stand among them.
        for name, column in columns.items():
            if str in set(map(type, column)):
                values[name] = [_FINITE.get(v, v) for v in column]
        # Files from before a column existed do not have it: nothing was recorded there.
        absent = [None] * len(values["position"])
        values = {f.name: absent for f in fields(kind)} | values
    table = kind(**values)
    uneven = {f.name: len(getattr(table, f.name)) for f in fields(kind)}
    if uneven.get("depth") == 0:
        del uneven["depth"]
    if len(set(uneven.values())) > 1:
        raise ValueError(f"columns of {kind.__name__.lower()} differ in length")
    return table


def encode_ticks(
    arm: str, unit: str, ticks: Sequence[Tick], tick_offset: int = 0
) -> dict[str, object]:
    """Ticks of one arm in one unit; their spans are rows of a second table, joined by place.

    Spans are half of a run's bytes: phase and lane are numbers into ``names``, and times are
    relative, ``after_ns`` behind the start of their tick and ``ns`` long.
    """
    record: dict[str, object] = {"record": "ticks", "arm": arm, "unit": unit}
    record.update({name: [getattr(tick, name) for tick in ticks] for name in _TICK})
    record["index"] = [tick.index + tick_offset for tick in ticks]
    spans = [(place, span) for place, tick in enumerate(ticks) for span in tick.spans]
    names = list(dict.fromkeys((span.phase, span.lane) for _, span in spans))
    record["spans"] = {
        "names": [list(name) for name in names],
        "name": [names.index((span.phase, span.lane)) for _, span in spans],
        "tick": [place for place, _ in spans],
        "after_ns": [span.start_ns - ticks[place].start_ns for place, span in spans],
        "ns": [span.end_ns - span.start_ns for _, span in spans],
    }
    return record


def decode_ticks(record: Mapping[str, Any]) -> list[Tick]:
    """The ticks behind a record; raises KeyError, TypeError or ValueError if it holds none."""
    spans, places = _spans(record), record["spans"]["tick"]
    kinds = {kind.value: kind for kind in TickKind}
    held = {name: record[name] for name in _TICK}
    held["kind"] = [kinds[kind] for kind in held["kind"]]
    # Spans are in the order of their ticks, see ``_spans``.
    counts = Counter(places)
    ends = accumulate(map(counts.__getitem__, range(len(held["kind"]))))
    grouped = (tuple(spans[first:last]) for first, last in pairwise([0, *ends]))
    return [Tick(*row) for row in zip(*held.values(), grouped, strict=True)]


def _spans(record: Mapping[str, Any]) -> list[Span]:
    """All spans of a record of ticks; made without a call of Python's each, as most is spans."""
    table, starts = record["spans"], record["start_ns"]
    places, name, after, ns = (table[column] for column in ("tick", "name", "after_ns", "ns"))
    if any(map(gt, places, places[1:])):
        raise ValueError("spans are not in the order of their ticks")
    phases = [phase for phase, _ in table["names"]]
    lanes = [Lane(lane) for _, lane in table["names"]]
    begun = [starts[place] + behind for place, behind in zip(places, after, strict=True)]
    columns = (
        map(phases.__getitem__, name),
        map(lanes.__getitem__, name),
        begun,
        map(add, begun, ns),
    )
    return list(map(tuple.__new__, repeat(Span), zip(*columns, strict=True)))


def encode_windows(arm: str, unit: str, windows: Sequence[Window]) -> dict[str, object]:
    """What counters showed while one arm ran in one unit."""
    return {
        "record": "windows",
        "arm": arm,
        "unit": unit,
        "windows": [asdict(window) for window in windows],
    }


def decode_windows(record: Mapping[str, Any]) -> list[Window]:
    """The windows behind a record; raises KeyError or TypeError if it holds none."""
    return [
        Window(**{**row, "tally": None if row["tally"] is None else Tally(**row["tally"])})
        for row in record["windows"]
    ]
