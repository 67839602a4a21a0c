"""Random resamples of units as counts, and the totals of columns over each.

Everything that is resampled here is a function of column totals. A resample is then a row of
counts, how often each unit was drawn, and its totals are one product of matrices; all intervals
over as many units with one seed share the same counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Counts = NDArray[np.uint8]
Statistic = Callable[..., Any]
"""Of columns of one entry per unit, along the axis of units, by their totals alone."""
BLOCK = 4_000_000
"""Entries that are in memory as float64 at a time."""


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
def swaps(units: int, most: int, seed: int) -> tuple[Counts, bool]:
    """Which units are swapped, uint8 [rows, units], and whether these are all possible swaps.

    All 2^n are enumerated where they are at most ``most``, else so many are drawn.
    """
    every = 2**units <= most
    if every:
        rows = np.arange(2**units)[:, None] >> np.arange(units) & 1
    else:
        rows = np.random.default_rng(seed).integers(0, 2, (most, units), np.uint8)
    found = rows.astype(np.uint8)
    found.flags.writeable = False
    return found, every


def totals(counts: NDArray[np.integer], columns: Sequence[Array]) -> list[Array]:
    """Totals of each column over each resample, [resamples] each."""
    stacked = np.stack(columns, axis=1)
    step = max(1, BLOCK // max(1, counts.shape[1]))
    parts = [
        counts[first : first + step].astype(np.float64) @ stacked
        for first in range(0, len(counts), step)
    ]
    return list(np.concatenate(parts).T)


def drawn_totals(columns: Sequence[Array], resamples: int, seed: int) -> list[Array]:
    """Totals of each column over ``drawn`` resamples, read-only, [resamples] each.

    The last ones are kept: the intervals of a measure and its spread are over the same.
    """
    stacked = np.stack(columns, axis=1)
    return list(_drawn_totals(stacked.tobytes(), len(columns), resamples, seed).T)


@lru_cache(maxsize=1)
def _drawn_totals(stacked: bytes, columns: int, resamples: int, seed: int) -> Array:
    """[resamples, columns] of columns side by side, [units, columns]."""
    units = np.frombuffer(stacked).reshape(-1, columns)
    found = np.stack(totals(drawn(len(units), resamples, seed), list(units.T)), axis=1)
    found.flags.writeable = False
    return found


def of_totals(statistic: Statistic, sums: Sequence[Array]) -> Array:
    """A statistic of columns where only their totals are known, one entry per resample."""
    return np.asarray(statistic(*(one[:, None] for one in sums)))
