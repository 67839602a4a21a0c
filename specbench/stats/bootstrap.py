"""Intervals for ratios of totals: the paired bootstrap over independent units.

A unit (a prompt with its turns and repeats, a block of prompts, a server start) is resampled as a
whole, because the steps and tokens inside it are correlated. Intervals are symmetric bootstrap-t
ones (``stats.studentized``). From very many units on they are BCa ones (Efron 1987; Efron and
Tibshirani 1993, chapter 14), which cost less and are too narrow with some hundred units:
docs/comparing.md. Where units belong to several groups, as prompts to starts of a server, groups
are resampled first and units inside them second; the interval is then the percentile one, whose
bias with few groups ``stats.nested`` states.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbench.core.quantity import Quantity, nothing
from specbench.stats.nested import nested_counts, several
from specbench.stats.resamples import Array, Statistic, drawn, drawn_totals, of_totals, totals
from specbench.stats.studentized import studentized_bounds

LEVEL = 0.95
RESAMPLES = 4999
FEWEST_UNITS = 3
"""With fewer units a bootstrap has nothing to resample and no interval is formed."""
FEWEST_STUDENTIZED, MANY_UNITS = 6, 1000
"""Units from which on, and below which, an interval is bootstrap-t; else BCa."""
BY_UNITS = ""
"""Method that goes by the number of units."""
METHODS = ("t", "BCa", "percentile")
"""Each falls back to the next where it is undefined."""
RATIO = (0.0, math.inf)
ANYTHING = (-math.inf, math.inf)
UNOBSERVED = "no interval: resamples without observations"


def total_ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    seed: int,
    unit: str,
    level: float = LEVEL,
    method: str = BY_UNITS,
    empty: str = "the denominator is zero",
    groups: ArrayLike | None = None,
) -> Quantity:
    """Ratio of totals, sum(numerator) / sum(denominator), with a bootstrap interval over units.

    Args:
        numerator, denominator: one entry per unit; units with a zero denominator hold no
            observation and are left out.
        seed: seed of the resampling.
        unit: unit of the result.
        level: coverage of the interval.
        method: of ``METHODS``, or by the number of units.
        empty: reason given where no unit holds an observation.
        groups: label of each unit's group (start of the server); None or one label = one level.
    """
    top, bottom = unit_columns(numerator, denominator)
    held = bottom != 0.0
    if not held.any():
        return nothing(empty, unit)
    columns = (top[held], bottom[held])
    if groups is not None and several(kept := _labels(groups, held)):
        return _nested(columns, quotient, kept, seed, unit, level)
    return interval(columns, quotient, seed, unit, level, method, within=_range(*columns, unit))


def _range(top: Array, bottom: Array, unit: str) -> tuple[float, float]:
    """What the ratio cannot leave: nothing negative, and no share above 1."""
    if (top < 0).any():
        return ANYTHING
    return RATIO if unit != "1" or (top > bottom).any() else (0.0, 1.0)


def ratio_interval(
    numerator_a: ArrayLike,
    denominator_a: ArrayLike,
    numerator_b: ArrayLike,
    denominator_b: ArrayLike,
    *,
    seed: int,
    level: float = LEVEL,
    method: str = BY_UNITS,
    unit: str = "x",
    groups: ArrayLike | None = None,
) -> Quantity:
    """(sum num_a / sum den_a) / (sum num_b / sum den_b), arms a and b paired by unit.

    All four arrays have one entry per unit, in the same order; a resample draws whole units, so
    that what is common to both arms of a unit cancels. Never a mean of per-unit ratios.

    Args:
        numerator_a, denominator_a: totals of arm a, e.g. decode time and tokens.
        numerator_b, denominator_b: totals of arm b.
        seed: seed of the resampling.
        level: coverage of the interval.
        method: of ``METHODS``, or by the number of units.
        unit: unit of the result.
        groups: label of each unit's group (start of the server); None or one label = one level.
    """
    columns = unit_columns(numerator_a, denominator_a, numerator_b, denominator_b)
    if len(columns[0]) == 0:
        return nothing("no paired unit", unit)
    if any(column.sum() == 0.0 for column in columns[1:]):
        return nothing("a total of the ratio is zero", unit)
    return grouped_interval(columns, ratio_of_ratios, seed, unit, level, method, groups)


def grouped_interval(
    columns: tuple[Array, ...],
    statistic: Statistic,
    seed: int,
    unit: str,
    level: float = LEVEL,
    method: str = BY_UNITS,
    groups: ArrayLike | None = None,
) -> Quantity:
    """``interval`` of a ratio where units are of one group, else groups are resampled before units.

    Args:
        groups: label of each unit's group (start of the server); None or one label = one level.
    """
    if groups is not None and several(kept := _labels(groups, np.full(len(columns[0]), True))):
        return _nested(columns, statistic, kept, seed, unit, level)
    return interval(columns, statistic, seed, unit, level, method, within=RATIO)


def ratio_of_ratios(num_a: Array, den_a: Array, num_b: Array, den_b: Array, axis: int = -1) -> Any:
    """The statistic of ``ratio_interval`` along ``axis``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return quotient(num_a, den_a, axis) / quotient(num_b, den_b, axis)


def difference_of_totals(
    num_a: Array, den_a: Array, num_b: Array, den_b: Array, axis: int = -1
) -> Any:
    """sum num_a / sum den_a - sum num_b / sum den_b along ``axis``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return quotient(num_a, den_a, axis) - quotient(num_b, den_b, axis)


def quotient(num: Array, den: Array, axis: int = -1) -> Any:
    """sum num / sum den along ``axis``: a ratio of totals."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return num.sum(axis=axis) / den.sum(axis=axis)


def unit_columns(*arrays: ArrayLike) -> tuple[Array, ...]:
    """Totals as columns of one entry per unit; ValueError where their lengths differ."""
    columns = tuple(np.asarray(array, dtype=np.float64) for array in arrays)
    if any(column.shape != columns[0].shape or column.ndim != 1 for column in columns):
        shapes = [column.shape for column in columns]
        raise ValueError(f"one entry per unit is needed in every array, got shapes {shapes}")
    return columns


def _labels(groups: ArrayLike, held: NDArray[np.bool_]) -> NDArray[Any]:
    labels = np.asarray(groups)
    if labels.shape != held.shape:
        raise ValueError(f"one group per unit is needed, got {labels.shape} for {held.shape}")
    return labels[held]


def _nested(
    columns: tuple[Array, ...],
    statistic: Statistic,
    groups: NDArray[Any],
    seed: int,
    unit: str,
    level: float,
) -> Quantity:
    value, units = float(statistic(*columns)), len(columns[0])
    if units < FEWEST_UNITS:
        return Quantity(value, unit, n=units, method=_too_few(units))
    times = nested_counts(groups, RESAMPLES, np.random.default_rng(seed))
    found = of_totals(statistic, totals(times, columns))
    if not np.isfinite(found).all():
        return Quantity(value, unit, n=units, method=UNOBSERVED)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    name = f"bootstrap-percentile over {len(np.unique(groups))} starts, then {units} units"
    return Quantity(value, unit, float(low), float(high), level, units, name)


def _too_few(units: int) -> str:
    return f"no interval: {units} independent units, {FEWEST_UNITS} are needed"


def interval(
    columns: tuple[Array, ...],
    statistic: Statistic,
    seed: int,
    unit: str,
    level: float,
    method: str = BY_UNITS,
    what: str = "",
    within: tuple[float, float] = ANYTHING,
) -> Quantity:
    """A statistic of columns with its bootstrap interval over units.

    Args:
        statistic: of the columns' totals, along the axis of units.
        method: of ``METHODS``, or by the number of units.
        what: words for the method's name: what the interval is of.
        within: least and largest value that the statistic can have.
    """
    value, units = float(statistic(*columns)), len(columns[0])
    if units < FEWEST_UNITS:
        return Quantity(value, unit, n=units, method=_too_few(units))
    tries = METHODS[METHODS.index(method or method_for(units)) :]
    for place, attempt in enumerate(tries):
        low, high = _bounds(columns, statistic, seed, level, attempt, within[0] >= 0)
        if np.isfinite(low) and np.isfinite(high):
            name = f"bootstrap-{attempt}{what} over {units} units"
            if place:
                name += f" ({', '.join(tries[:place])} undefined)"
            low, high = max(low, within[0]), min(high, within[1])
            return Quantity(value, unit, low, high, level, units, name)
    return Quantity(value, unit, n=units, method=UNOBSERVED)


def method_for(units: int) -> str:
    """The method of an interval over so many units."""
    return "t" if FEWEST_STUDENTIZED <= units < MANY_UNITS else "BCa"


def _bounds(
    columns: tuple[Array, ...],
    statistic: Statistic,
    seed: int,
    level: float,
    method: str,
    positive: bool,
) -> tuple[float, float]:
    sums = drawn_totals(columns, RESAMPLES, seed)
    found = of_totals(statistic, sums)
    if not np.isfinite(found).all():
        return math.nan, math.nan
    if method == "t":
        counts = drawn(len(columns[0]), RESAMPLES, seed)
        return studentized_bounds(columns, statistic, counts, sums, level, positive)
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "BCa":
        ends = _corrected(columns, statistic, found, ends)
    if not np.isfinite(ends).all():
        return math.nan, math.nan
    low, high = np.quantile(found, ends)
    return float(low), float(high)


def _corrected(
    columns: tuple[Array, ...], statistic: Statistic, found: Array, ends: Array
) -> Array:
    """Shares of the resamples below the ends of a BCa interval; nan where it is undefined.

    Efron and Tibshirani 1993, equations 14.10, 14.14 and 14.15.
    """
    value = float(statistic(*columns))
    below = (np.count_nonzero(found < value) + np.count_nonzero(found <= value)) / (2 * len(found))
    left_out = of_totals(statistic, [column.sum() - column for column in columns])
    away = left_out.mean() - left_out
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
        bias = stats.norm.ppf(below)
        moved = bias + stats.norm.ppf(ends)
        return np.asarray(stats.norm.cdf(bias + moved / (1 - acceleration * moved)))
