"""Bootstrap-t intervals: every resample is measured by a spread of its own.

Efron 1981; Efron and Tibshirani 1993, section 12.5. Other bootstraps are too narrow, because a
resample varies less than a sample and because the spread of a ratio goes with its value;
t = (resample - value) / spread of the resample follows both. Its spread is that of the linear part
(infinitesimal jackknife).

Both ends are as far away, by the quantile of |t|: of two tails together resamples tell more than of
one, and errors of skewness cancel (Hall 1988, On symmetric bootstrap confidence intervals, Journal
of the Royal Statistical Society B 50). With an end of its own for each tail, intervals of coverage
1 - 2 x 0.001 over 16 heavy-tailed prompts missed on one side four times as often as they may. What
is positive is measured by its logarithm, in which a ratio and its reciprocal are alike and both
sides are missed alike. ``scripts/simulations`` says what coverage that gives.

Where one unit makes most of the spread, resamples without it have almost none, and |t| goes to
thousands. More than Student's t of one degree of freedom, which two units would give, is not
believed: such an interval is wide enough to say that nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from specbench.stats.resamples import BLOCK, Array, Counts, Statistic, of_totals

STEP = 1e-5
"""Of a column's total, for derivatives by central differences."""


def studentized_bounds(
    columns: tuple[Array, ...],
    statistic: Statistic,
    counts: Counts,
    sums: Sequence[Array],
    level: float,
    positive: bool,
) -> tuple[float, float]:
    """Ends of the bootstrap-t interval; nan or infinite where it is undefined.

    Args:
        columns: one entry per unit.
        statistic: of the columns' totals, along the axis of units; does not change where all totals
            are multiplied by one factor.
        counts: how often each unit is in each resample, [resamples, units].
        sums: totals of each column over each resample.
        level: coverage of the interval.
        positive: whether the statistic cannot be negative.
    """
    whole = [column.sum(keepdims=True) for column in columns]
    (value,) = of_totals(statistic, whole)
    (spread,) = _spreads(columns, statistic, np.ones((1, len(columns[0]))), whole)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found, spreads = of_totals(statistic, sums), _spreads(columns, statistic, counts, sums)
        if positive:
            spread, spreads = spread / value, spreads / found
            value, found = np.log(value), np.log(found)
        t = np.abs(found - value) / spreads
        if np.isnan(t).any():
            return np.nan, np.nan
        # No interpolation, so that an infinite t makes the ends infinite only where it is theirs.
        far = np.quantile(t, level, method="inverted_cdf")
        if np.isfinite(far):
            far = min(far, stats.t.ppf((1 + level) / 2, 1))
        low, high = value - far * spread, value + far * spread
        return (float(np.exp(low)), float(np.exp(high))) if positive else (float(low), float(high))


def _spreads(
    columns: tuple[Array, ...],
    statistic: Statistic,
    counts: NDArray[Any],
    sums: Sequence[Array],
) -> Array:
    """Deviation of the statistic of each resample, from what each of its units moves it by."""
    slopes = np.stack(_slopes(columns, statistic, sums), axis=1)
    units = np.stack(columns)
    step = max(1, BLOCK // units.shape[1])
    variance = np.empty(len(counts))
    for first in range(0, len(counts), step):
        rows = slice(first, first + step)
        moves = slopes[rows] @ units
        # Their sum over the units of a resample is 0, as the statistic goes by ratios alone.
        np.multiply(moves, moves, out=moves)
        variance[rows] = np.einsum("ij,ij->i", moves, counts[rows])
    return np.sqrt(variance)


def _slopes(columns: tuple[Array, ...], statistic: Statistic, sums: Sequence[Array]) -> list[Array]:
    """Derivatives of the statistic with respect to each total, at each resample."""
    found = []
    for place, column in enumerate(columns):
        width = STEP * (np.abs(column).sum() or 1.0)
        ends = []
        for shift in (width, -width):
            moved = [one + shift if n == place else one for n, one in enumerate(sums)]
            ends.append(of_totals(statistic, moved))
        found.append((ends[0] - ends[1]) / (2 * width))
    return found
