"""Times of pieces of work, taken in turns so that what slows the machine slows all of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from specbench.models.device import clock_for

WARM_UPS = 3


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds of one piece of work.

    Attributes:
        median, low, high: of the repetitions; the ends hold the middle half of them.
        n: repetitions.
    """

    median: float
    low: float
    high: float
    n: int

    def over(self, other: Timed) -> float:
        """Ratio of medians."""
        return self.median / other.median


def interleaved(
    works: Mapping[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, Timed]:
    """Time all of them ``repeats`` times, one after the other; each is warmed up first."""
    clock = clock_for(device)
    for work in works.values():
        for _ in range(WARM_UPS):
            work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            start = clock()
            work()
            taken[name].append((clock() - start) / 1e6)
    return {name: summary(times) for name, times in taken.items()}


def summary(times: list[float]) -> Timed:
    """Median and middle half."""
    low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timed(statistics.median(times), low, high, len(times))
