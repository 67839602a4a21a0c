"""Independent units and pairs: what is resampled as a whole, and what is compared with what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specbench.core.request import RequestKey
from specbench.core.trace import Trace
from specbench.metrics.timeline import finished


@dataclass(frozen=True, slots=True)
class Pair:
    """The same request under an arm and under plain."""

    arm: Trace
    plain: Trace


def pairs(arm: Sequence[Trace], plain: Sequence[Trace]) -> list[Pair]:
    """Requests that both arms finished at the same concurrency, in the arm's order.

    Joined on suite, item (the conversation), turn, temperature and repeat; never on row numbers.
    Both arms decode an item in the same stage of a run, so the two are of the same start.
    """
    by_key = {(trace.key, trace.concurrency): trace for trace in finished(plain)}
    joined = ((trace, by_key.get((trace.key, trace.concurrency))) for trace in finished(arm))
    return [Pair(trace, other) for trace, other in joined if other is not None]


def item_label(trace: Trace) -> str:
    """The prompt: its turns and repeats are correlated and stay together in a resample."""
    return f"{trace.key.suite}/{trace.key.item}"


def time_labels(traces: Sequence[Trace]) -> list[str]:
    """The unit of timing each trace belongs to.

    The interleaving unit (``Trace.unit``) where it holds several items, as a block or a server
    start does; the item where each unit holds one, so that repeats of an item stay together.
    With open arrivals a unit is all of a cell, and the item is the unit of timing: an interval then
    leaves out that requests wait for each other in one queue.
    """
    items: dict[str, set[str]] = defaultdict(set)
    for trace in traces:
        items[trace.unit].add(item_label(trace))
    wide = {unit for unit, held in items.items() if unit and len(held) > 1}
    return [
        trace.unit if trace.unit in wide and not open_loop(trace) else item_label(trace)
        for trace in traces
    ]


def open_loop(trace: Trace) -> bool:
    """Whether the request was due at a time of its own, and not when a place became free."""
    return trace.sent_ns is not None


def label_starts(labels: Sequence[str], traces: Sequence[Trace]) -> list[int]:
    """Which start of the servers decoded each label, in order of first appearance.

    A unit belongs to one start, because the prompts of a run are dealt out to its starts. It is
    what intervals resample first; without servers every unit is of start 0.
    """
    found: dict[str, int] = {}
    for label, trace in zip(labels, traces, strict=True):
        found.setdefault(label, trace.start)
    return list(found.values())


def indices(labels: Sequence[str]) -> list[int]:
    """Labels as integers 0 .. n-1 in order of first appearance."""
    seen: dict[str, int] = {}
    return [seen.setdefault(label, len(seen)) for label in labels]


def sums(labels: Sequence[str], values: Sequence[float]) -> list[float]:
    """Sum of the values of each label, in order of first appearance."""
    totals: dict[str, float] = {}
    for label, value in zip(labels, values, strict=True):
        totals[label] = totals.get(label, 0.0) + value
    return list(totals.values())


def item_sums(traces: Sequence[Trace], count: Callable[[Trace], float]) -> list[float]:
    """Per-item sums of a per-trace count."""
    return sums([item_label(trace) for trace in traces], [count(trace) for trace in traces])


def only(traces: Sequence[Trace], keys: frozenset[RequestKey]) -> list[Trace]:
    """The traces of these requests."""
    return [trace for trace in traces if trace.key in keys]
