"""Figures of some steps, averaged until a row of the curves is due."""

from __future__ import annotations

from collections.abc import Mapping

Sums = dict[str, tuple[float, int]]


class Means:
    """Means of figures; each over the times that it was there.

    Args:
        sums: name -> sum and number so far, of a former ``sums``.
    """

    def __init__(self, sums: Mapping[str, tuple[float, int]] | None = None) -> None:
        self.sums: Sums = {name: (total, count) for name, (total, count) in (sums or {}).items()}

    def add(self, figures: Mapping[str, float]) -> None:
        """One more set."""
        for name, value in figures.items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = (total + value, count + 1)

    def take(self) -> dict[str, float]:
        """The means; it starts afresh."""
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums = {}
        return means
