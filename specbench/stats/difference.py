"""Interval for the difference of two ratios of totals, paired by unit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, LEVEL, RESAMPLES, UNOBSERVED

Array = NDArray[np.float64]


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
    interval is BCa (Efron 1987), the percentile one where that is undefined.

    Args:
        numerator_a, denominator_a: totals of arm a, one entry per unit.
        numerator_b, denominator_b: totals of arm b, in the same order.
        seed: seed of the resampling.
        unit: unit of the result.
        level: coverage of the interval.
    """
    arrays = (numerator_a, denominator_a, numerator_b, denominator_b)
    columns: tuple[Array, ...] = tuple(np.asarray(one, dtype=np.float64) for one in arrays)
    if any(column.shape != columns[0].shape or column.ndim != 1 for column in columns):
        raise ValueError(f"one entry per unit is needed, got {[c.shape for c in columns]}")
    units = len(columns[0])
    if not units:
        return nothing("no paired unit", unit)
    if columns[1].sum() == 0.0 or columns[3].sum() == 0.0:
        return nothing("a denominator is zero", unit)
    value = float(_difference(*columns))
    if np.array_equal(columns[0], columns[2]) and np.array_equal(columns[1], columns[3]):
        return Quantity(value, unit, n=units, method=f"no interval: equal on all {units} units")
    if units < FEWEST_UNITS:
        few = f"no interval: {units} independent units, {FEWEST_UNITS} are needed"
        return Quantity(value, unit, n=units, method=few)
    for method in ("BCa", "percentile"):
        low, high = _bounds(columns, seed, level, method)
        if np.isfinite(low) and np.isfinite(high):
            name = f"bootstrap-{method} of the difference over {units} units"
            return Quantity(value, unit, low, high, level, units, name)
    return Quantity(value, unit, n=units, method=UNOBSERVED)


def _difference(*columns: Array, axis: int = -1) -> Any:
    num_a, den_a, num_b, den_b = (column.sum(axis=axis) for column in columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        return num_a / den_a - num_b / den_b


def _bounds(
    columns: tuple[Array, ...], seed: int, level: float, method: str
) -> tuple[float, float]:
    with warnings.catch_warnings():
        # Degenerate data are not an error: NaN bounds come back and the caller falls back.
        warnings.simplefilter("ignore")
        found = stats.bootstrap(
            columns,
            _difference,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=max(1, 4_000_000 // len(columns[0])),
            confidence_level=level,
            method=method,
            random_state=np.random.default_rng(seed),
        ).confidence_interval
    return float(found.low), float(found.high)
