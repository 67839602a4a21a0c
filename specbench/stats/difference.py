"""Interval for the difference of two ratios of totals, paired by unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import LEVEL, interval, unit_columns
from specbench.stats.ratios import DIFFERENCE


def difference_of_ratios(
    numerator_a: ArrayLike,
    denominator_a: ArrayLike,
    numerator_b: ArrayLike,
    denominator_b: ArrayLike,
    *,
    seed: int,
    unit: str,
    level: float = LEVEL,
) -> Quantity:
    """sum num_a / sum den_a - sum num_b / sum den_b, arms a and b paired by unit.

    A resample draws whole units, so that what is common to both arms of a unit cancels. The
    interval is the one that ``stats.bootstrap`` has for so many units.

    Args:
        numerator_a, denominator_a: totals of arm a, one entry per unit.
        numerator_b, denominator_b: totals of arm b, in the same order.
        seed: seed of the resampling.
        unit: unit of the result.
        level: coverage of the interval.
    """
    columns = unit_columns(numerator_a, denominator_a, numerator_b, denominator_b)
    units = len(columns[0])
    if not units:
        return nothing("no paired unit", unit)
    if columns[1].sum() == 0.0 or columns[3].sum() == 0.0:
        return nothing("a denominator is zero", unit)
    if np.array_equal(columns[0], columns[2]) and np.array_equal(columns[1], columns[3]):
        return Quantity(0.0, unit, n=units, method=f"no interval: equal on all {units} units")
    return interval(columns, DIFFERENCE, seed, unit, level, what=" of the difference")
