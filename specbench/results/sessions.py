"""Puts the sessions of a resumed run one after the other on one time line.

A monotonic clock may start again after a reboot. Times of different sessions would then overlap
and look like requests that ran together. Files keep what was read off the clock; only what is
computed from them is shifted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from specbench.core.trace import Tick, Trace

APART_NS = 3600 * 10**9


@dataclass(slots=True)
class TimeLine:
    """Shifts records read in file order."""

    _shift: int = 0
    _latest: int | None = None
    _new_session: bool = False

    def resume(self) -> None:
        """What follows is of another session."""
        self._new_session = True

    def trace(self, trace: Trace) -> Trace:
        """The trace with its times on the common line; a request without arrivals has none."""
        times = trace.arrivals.t_ns
        if times:
            self._place(trace.start_ns, times[-1])
            if self._shift:
                trace.start_ns += self._shift
                trace.arrivals.t_ns = [time + self._shift for time in times]
                if trace.first_visible_ns is not None:
                    trace.first_visible_ns += self._shift
                if trace.sent_ns is not None:
                    trace.sent_ns += self._shift
        return trace

    def ticks(self, ticks: Sequence[Tick]) -> list[Tick]:
        """The ticks with their times on the common line."""
        if ticks:
            self._place(ticks[0].start_ns, ticks[-1].end_ns)
        return [self._moved(tick) for tick in ticks] if self._shift else list(ticks)

    def _place(self, start: int, end: int) -> None:
        if self._new_session:
            self._new_session = False
            self._shift = 0
            if self._latest is not None and start <= self._latest:
                self._shift = self._latest - start + APART_NS
        self._latest = max(self._latest or 0, end + self._shift)

    def _moved(self, tick: Tick) -> Tick:
        shift = self._shift
        spans = tuple(
            span._replace(start_ns=span.start_ns + shift, end_ns=span.end_ns + shift)
            for span in tick.spans
        )
        return replace(
            tick, start_ns=tick.start_ns + shift, end_ns=tick.end_ns + shift, spans=spans
        )
