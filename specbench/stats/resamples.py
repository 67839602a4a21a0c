"""Random resamples of units as counts, and the totals of columns over each.

Everything that is resampled here is a function of column totals. A resample is then a row of
counts, how often each unit was drawn, and its totals are one product of matrices. All intervals
over as many units with one seed share the same counts, and ``Sums`` multiplies them with many
columns at once: a thin product takes as long as reading the counts does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from specbench.stats.ratios import Array

Counts = NDArray[np.uint8]
BLOCK = 4_000_000
"""Entries that are drawn, and that are in memory as float64, at a time."""


@lru_cache(maxsize=4)
def drawn(units: int, resamples: int, seed: int) -> Counts:
    """How often each of so many units is drawn, with replacement, uint8 [resamples, units]."""
    rng = np.random.default_rng(seed)
    counts = np.empty((resamples, units), np.uint8)
    step = max(1, BLOCK // units)
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        places = rng.integers(0, units, (rows, units)) + units * np.arange(rows)[:, None]
        found = np.bincount(places.ravel(), minlength=rows * units)
        counts[first : first + rows] = found.reshape(rows, units)
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=4)
def swaps(units: int, most: int, seed: int) -> Counts:
    """Which units are swapped, uint8 [rows, units].

    All 2^n are enumerated where ``all_swaps``, else ``most`` are drawn.
    """
    if all_swaps(units, most):
        rows = np.arange(2**units)[:, None] >> np.arange(units) & 1
    else:
        rows = np.random.default_rng(seed).integers(0, 2, (most, units), np.uint8)
    found = rows.astype(np.uint8)
    found.flags.writeable = False
    return found


def all_swaps(units: int, most: int) -> bool:
    """Whether there are at most ``most`` possible swaps of so many units."""
    return 1 << units <= most


def totals(counts: NDArray[np.integer], columns: Sequence[Array]) -> Array:
    """Totals of each column over each resample, [columns, resamples]."""
    stacked = np.stack(columns)
    found = np.empty((len(columns), len(counts)))
    step = max(1, BLOCK // max(1, counts.shape[1]))
    for first in range(0, len(counts), step):
        part = counts[first : first + step].astype(np.float64)
        np.matmul(stacked, part.T, out=found[:, first : first + step])
    return found


class Sums:
    """Totals of many columns over the same resamples, each column once."""

    def __init__(self, counts: NDArray[np.integer], columns: Iterable[Array]) -> None:
        """Multiply.

        Args:
            counts: how often each unit is in each resample, [resamples, units].
            columns: one entry per unit, at least one column.
        """
        distinct = {column.tobytes(): column for column in columns}
        found = totals(counts, list(distinct.values()))
        self._found = dict(zip(distinct, found, strict=True))

    def of(self, columns: Iterable[Array]) -> list[Array]:
        """Totals of columns that are among them, by what they hold, [resamples] each."""
        return [self._found[column.tobytes()] for column in columns]
