"""Intervals and tests for a statistic that is no mean over its units.

Intervals resample units (Koehn 2004); the test swaps the arms inside units (approximate
randomisation, Riezler and Maxwell 2005).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from specbench.core.quantity import Quantity
from specbench.quality.translation import Array
from specbench.stats.bootstrap import FEWEST_UNITS, LEVEL

RESAMPLES, SWAPS = 1999, 4999


def resampled(statistic: Callable[[Array], Array], units: int, *, seed: int, unit: str) -> Quantity:
    """A statistic of weighted items with its percentile bootstrap interval.

    Args:
        statistic: weights [draws, units], the times each unit is drawn, -> [draws].
        units: number of independent units.
    """
    value = float(statistic(np.ones((1, units)))[0])
    if units < FEWEST_UNITS:
        why = f"no interval: {units} independent units, {FEWEST_UNITS} are needed"
        return Quantity(value, unit, n=units, method=why)
    draws = np.random.default_rng(seed).multinomial(units, [1 / units] * units, RESAMPLES)
    tail = (1.0 - LEVEL) / 2
    low, high = np.quantile(statistic(draws.astype(np.float64)), [tail, 1.0 - tail])
    method = f"bootstrap-percentile over {units} units"
    return Quantity(value, unit, float(low), float(high), LEVEL, units, method)


def swap_test(statistic: Callable[[Array], Array], units: int, *, seed: int) -> Quantity:
    """Two-sided p-value of a difference whose arms may be swapped inside each unit.

    All 2^n swaps are taken where they are few, else ``SWAPS`` are drawn and p is
    (1 + as extreme) / (1 + drawn).

    Args:
        statistic: swaps [draws, units] of 0 and 1 -> [draws].
    """
    seen = abs(float(statistic(np.zeros((1, units)))[0]))
    every = 2**units <= SWAPS
    if every:
        swaps = (np.arange(2**units)[:, None] >> np.arange(units)) & 1
    else:
        swaps = np.random.default_rng(seed).integers(0, 2, (SWAPS, units))
    # Equal sums in another order differ by rounding.
    extreme = int((np.abs(statistic(swaps.astype(np.float64))) >= seen - 1e-9).sum())
    p = extreme / len(swaps) if every else (1 + extreme) / (1 + len(swaps))
    return Quantity(p, "1", n=units, method=f"arms swapped inside {units} items")
