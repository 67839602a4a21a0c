"""Ticks and their spans. The clock is an argument; on an asynchronous device it synchronises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from specbench.core.trace import Lane, Span, Tick, TickKind


@dataclass(slots=True)
class Forwards:
    """How the forwards of a tick were run, where some can be replayed from captured graphs.

    Attributes:
        replayed, eager: how many.
        padding: tokens that replays ran for nobody.
    """

    replayed: int = 0
    eager: int = 0
    padding: int = 0

    def take(self) -> tuple[bool, int]:
        """Whether all were replayed, and the padding; counting begins anew."""
        found = self.replayed > 0 and self.eager == 0, self.padding
        self.replayed = self.eager = self.padding = 0
        return found


class TickRecorder:
    """Collects ticks.

    Args:
        now: monotonic clock in integer nanoseconds. On an asynchronous device it waits for the
            device first, so that a span contains the work that was started in it.
        spans: False keeps only the ends of a tick (no synchronisation inside it).
    """

    def __init__(self, now: Callable[[], int], spans: bool = True) -> None:
        self.now = now
        self.forwards = Forwards()
        """Counted by what runs forwards; read at the end of every tick."""
        self._with_spans = spans
        self._ticks: list[Tick] = []
        self._spans: list[Span] = []
        self._start = 0
        self._kind = TickKind.DECODE
        self._next = 0

    @property
    def index(self) -> int:
        """Index of the tick that is open, or of the next one."""
        return self._next

    def begin(self, kind: TickKind) -> None:
        """Open a tick."""
        self._kind = kind
        self._spans = []
        self.forwards.take()
        self._start = self.now()

    @contextmanager
    def span(self, phase: str) -> Iterator[None]:
        """Time one phase of the open tick."""
        if not self._with_spans:
            yield
            return
        start = self._spans[-1].end_ns if self._spans else self._start
        # A phase begins where the one before ended: nothing between two phases goes missing.
        yield
        self._spans.append(Span(phase, Lane.HOST, start, self.now()))

    def end(self, rows: int, tokens: int) -> int:
        """Close the tick; returns its end in nanoseconds."""
        end = self.now()
        graph, padding = self.forwards.take()
        self._ticks.append(
            Tick(
                self._next,
                self._kind,
                rows,
                tokens,
                tokens + padding,
                graph,
                self._start,
                end,
                tuple(self._spans),
            )
        )
        self._next += 1
        return end

    def drain(self) -> list[Tick]:
        """Ticks since the last call; indices go on counting."""
        done, self._ticks = self._ticks, []
        return done

    def restore(self, ticks: Sequence[Tick]) -> None:
        """Put drained ticks back in front, as if what came after them had not happened."""
        self._ticks = [*ticks, *self._ticks]
