"""The clock as an argument: measurements read it, tests wind it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Nanoseconds of a monotonic clock."""

monotonic: Clock = time.perf_counter_ns


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start_ns: int = 0) -> None:
        self.now_ns = start_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        self.now_ns += nanoseconds
