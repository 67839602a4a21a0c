"""Spans on the device's own clock, taken by events in its queue; nothing waits for them.

An event is a mark in the queue. When the device reaches one it notes the time: a phase's start mark
lies behind everything queued before it, so the device is idle between the end mark of a phase and
a later start mark. Marks are read when ticks are drained, once the device has passed all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from specbench.core.trace import Lane, Span, Tick
from specbench.decoding.timing import TickRecorder

NS_PER_MS = 1e6


class Mark(Protocol):
    """A mark in the queue, such as ``torch.cuda.Event(enable_timing=True)``."""

    def record(self) -> None:
        """Put it behind all that is queued."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds to another mark; both have been passed."""
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """How marks are made and waited for.

    Attributes:
        new: makes one.
        wait: waits until the device has passed all of them.
    """

    new: Callable[[], Mark]
    wait: Callable[[], None]


class OverlappedRecorder(TickRecorder):
    """Ticks of a host that does not wait for the device: spans of the host, and of the device.

    Host spans say how long a phase kept the host, which only queues most of the work; device spans
    say when the work ran. Device work that goes on after its tick belongs to the ticks it runs in.

    Args:
        now: monotonic nanoseconds; does not wait for the device.
        marks: of the device's queue.
        spans: False keeps only the ends of a tick.
    """

    def __init__(self, now: Callable[[], int], marks: Marks, spans: bool = True) -> None:
        super().__init__(now, spans)
        self._marks = marks
        self._marked: list[tuple[str, Mark, Mark]] = []
        self._origin: tuple[int, Mark] | None = None

    @contextmanager
    def span(self, phase: str) -> Iterator[None]:
        """Time one phase on the host, and mark it in the queue."""
        if not self._with_spans:
            yield
            return
        if self._origin is None:
            self._origin = self._synchronised()
        start, end = self._marks.new(), self._marks.new()
        start.record()
        with super().span(phase):
            yield
        end.record()
        self._marked.append((phase, start, end))

    def drain(self) -> list[Tick]:
        """Ticks since the last call, with their device spans; waits for the device."""
        ticks = super().drain()
        if self._origin is None:
            return ticks
        self._marks.wait()
        found = shared_out(ticks, _read(self._origin, self._marked))
        self._marked, self._origin = [], None
        return found

    def _synchronised(self) -> tuple[int, Mark]:
        """A time of the host and a mark that the device passes then."""
        self._marks.wait()
        mark = self._marks.new()
        now = self.now()
        mark.record()
        return now, mark


def _read(origin: tuple[int, Mark], marked: Sequence[tuple[str, Mark, Mark]]) -> list[Span]:
    """Device spans on the host's clock.

    Each mark is read from the one before: differences over a long run would lose their digits.
    """
    at, last = origin
    spans, behind = [], 0.0
    for phase, start, end in marked:
        begun = behind + last.elapsed_time(start) * NS_PER_MS
        behind, last = begun + start.elapsed_time(end) * NS_PER_MS, end
        spans.append(Span(phase, Lane.DEVICE, at + round(begun), at + round(behind)))
    return spans


def shared_out(ticks: Sequence[Tick], spans: Sequence[Span]) -> list[Tick]:
    """The ticks with the parts of the spans that lie inside them.

    What lies between two ticks or behind the last one belongs to none.
    """
    found = []
    first = 0
    for tick in ticks:
        inside = []
        for place in range(first, len(spans)):
            span = spans[place]
            if span.start_ns >= tick.end_ns:
                break
            if span.end_ns <= tick.start_ns:
                first = place + 1
                continue
            inside.append(
                span._replace(
                    start_ns=max(span.start_ns, tick.start_ns),
                    end_ns=min(span.end_ns, tick.end_ns),
                )
            )
        found.append(replace(tick, spans=(*tick.spans, *inside)))
    return found
