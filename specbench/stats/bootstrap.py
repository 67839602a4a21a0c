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
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from specbench.core.quantity import Quantity, nothing
from specbench.stats.nested import nested_counts, several
from specbench.stats.ratios import MEAN, QUOTIENT, RATIO_OF_RATIOS, Array, Form, Ratios
from specbench.stats.resamples import Sums, drawn, totals
from specbench.stats.studentized import products, studentized_bounds

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
    statistic = MEAN if (columns[0] < 0).any() else QUOTIENT
    if groups is not None and several(kept := _labels(groups, held)):
        return _nested(columns, statistic, kept, seed, unit, level)
    share = statistic is QUOTIENT and unit == "1" and not (columns[0] > columns[1]).any()
    return interval(columns, statistic, seed, unit, level, method, most=1.0 if share else math.inf)


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
    return grouped_interval(columns, RATIO_OF_RATIOS, seed, unit, level, method, groups)


def grouped_interval(
    columns: Sequence[Array],
    statistic: Ratios,
    seed: int,
    unit: str,
    level: float = LEVEL,
    method: str = BY_UNITS,
    groups: ArrayLike | None = None,
    sums: Sums | None = None,
) -> Quantity:
    """``interval`` where units are of one group, else groups are resampled before units.

    Args:
        groups: label of each unit's group (start of the server); None or one label = one level.
        sums: of ``resampled``, read where units are of one group.
    """
    if groups is not None and several(kept := _labels(groups, np.full(len(columns[0]), True))):
        return _nested(columns, statistic, kept, seed, unit, level)
    return interval(columns, statistic, seed, unit, level, method, sums=sums)


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
    columns: Sequence[Array],
    statistic: Ratios,
    groups: NDArray[Any],
    seed: int,
    unit: str,
    level: float,
) -> Quantity:
    value, units = float(statistic(*columns)), len(columns[0])
    if units < FEWEST_UNITS:
        return Quantity(value, unit, n=units, method=_too_few(units))
    times = nested_counts(groups, RESAMPLES, np.random.default_rng(seed))
    found = statistic.at(totals(times, columns))
    if not np.isfinite(found).all():
        return Quantity(value, unit, n=units, method=UNOBSERVED)
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    name = f"bootstrap-percentile over {len(np.unique(groups))} starts, then {units} units"
    return Quantity(value, unit, float(low), float(high), level, units, name)


def _too_few(units: int) -> str:
    return f"no interval: {units} independent units, {FEWEST_UNITS} are needed"


def resampled(asked: Sequence[Sequence[Array]], seed: int) -> Sums:
    """What ``interval`` reads of several statistics, each of as many units, in one product.

    Args:
        asked: columns of each statistic, one entry per unit; at least one statistic.
        seed: seed of the resampling.
    """
    units = len(asked[0][0])
    needed = [column for columns in asked for column in columns]
    if method_for(units) == "t":
        needed += [product for columns in asked for product in products(columns)]
    return Sums(drawn(units, RESAMPLES, seed), needed)


def interval(
    columns: Sequence[Array],
    statistic: Ratios,
    seed: int,
    unit: str,
    level: float,
    method: str = BY_UNITS,
    what: str = "",
    most: float = math.inf,
    sums: Sums | None = None,
) -> Quantity:
    """A statistic of columns with its bootstrap interval over units.

    Args:
        statistic: a product of ratios, none of them negative, or a sum.
        method: of ``METHODS``, or by the number of units.
        what: words for the method's name: what the interval is of.
        most: largest value that the statistic can have.
        sums: of ``resampled``, made with this seed; None: they are made here.
    """
    value, units = float(statistic(*columns)), len(columns[0])
    if units < FEWEST_UNITS:
        return Quantity(value, unit, n=units, method=_too_few(units))
    tries = METHODS[METHODS.index(method or method_for(units)) :]
    sums = sums or resampled([columns], seed)
    for place, attempt in enumerate(tries):
        low, high = _bounds(columns, statistic, sums, level, attempt)
        if np.isfinite(low) and np.isfinite(high):
            name = f"bootstrap-{attempt}{what} over {units} units"
            if place:
                name += f" ({', '.join(tries[:place])} undefined)"
            least = 0.0 if statistic.form is Form.PRODUCT else -math.inf
            low, high = max(low, least), min(high, most)
            return Quantity(value, unit, low, high, level, units, name)
    return Quantity(value, unit, n=units, method=UNOBSERVED)


def method_for(units: int) -> str:
    """The method of an interval over so many units."""
    return "t" if FEWEST_STUDENTIZED <= units < MANY_UNITS else "BCa"


def _bounds(
    columns: Sequence[Array], statistic: Ratios, sums: Sums, level: float, method: str
) -> tuple[float, float]:
    found = statistic.at(sums.of(columns))
    if not np.isfinite(found).all():
        return math.nan, math.nan
    if method == "t":
        return studentized_bounds(columns, statistic, sums, level)
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "BCa":
        ends = _corrected(columns, statistic, found, ends)
    if not np.isfinite(ends).all():
        return math.nan, math.nan
    low, high = np.quantile(found, ends)
    return float(low), float(high)


def _corrected(columns: Sequence[Array], statistic: Ratios, found: Array, ends: Array) -> Array:
    """Shares of the resamples below the ends of a BCa interval; nan where it is undefined.

    Efron and Tibshirani 1993, equations 14.10, 14.14 and 14.15.
    """
    value = float(statistic(*columns))
    below = (np.count_nonzero(found < value) + np.count_nonzero(found <= value)) / (2 * len(found))
    left_out = statistic.at([column.sum() - column for column in columns])
    away = left_out.mean() - left_out
    with np.errstate(divide="ignore", invalid="ignore"):
        acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)
        bias = special.ndtri(below)
        moved = bias + special.ndtri(ends)
        return np.asarray(special.ndtr(bias + moved / (1 - acceleration * moved)))
