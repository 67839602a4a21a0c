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
thousands; where it makes all of it, they have none, and |t| is infinite. More than Student's t of
one degree of freedom, which two units would give, is not believed: such an interval is wide enough
to say that nothing is known. The mean of differences of which one alone is not 0 is left to another
method instead.

A unit with numerator n and denominator d moves a ratio R = N / D by (n - R d) / D. With R0 the
ratio of the sample, e = n - R0 d and the shift R - R0, that is (e - shift d) / D, and a statistic
is moved by a sum of a few columns, the same ones for every resample, with weights. So the variance
of a resample, the sum of squared moves over its units, is a quadratic form of its weights with the
totals of products of two columns. Residuals, and not n, are multiplied, because their products are
small where the spread is: nothing large cancels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from specbench.stats.ratios import Array, Form, Ratios
from specbench.stats.resamples import Sums

NOTHING = 1e-6
"""Share of the spread of the sample that is rounding, as a distance or as a spread."""


def studentized_bounds(
    columns: Sequence[Array], statistic: Ratios, sums: Sums, level: float
) -> tuple[float, float]:
    """Ends of the bootstrap-t interval; nan where it is undefined.

    Args:
        columns: one entry per unit.
        statistic: a product, which cannot be negative, or a sum.
        sums: totals over each resample of the columns and of ``products``.
        level: coverage of the interval.
    """
    positive = statistic.form is Form.PRODUCT
    scale = statistic.log if positive else statistic
    whole = [column.sum() for column in columns]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value = scale.at(whole)
        weights = _weights(scale, whole)
        residuals = _basis(columns)[::2]
        spread = float(np.linalg.norm(np.array(weights) @ np.stack(residuals)))
        away = np.abs(scale.at(sums.of(columns)) - value)
        spreads = _spreads(columns, scale, sums)
        spreads[spreads <= NOTHING * spread] = 0.0
        # Resamples without the units that differ between two arms: no spread, and not away.
        t = np.where(away <= NOTHING * spread, 0.0, away / spreads)
        if np.isnan(t).any():
            return np.nan, np.nan
        # No interpolation, as some are infinite.
        far = float(np.quantile(t, level, method="inverted_cdf"))
        if not positive and math.isinf(far):
            return np.nan, np.nan
        far = min(far, math.tan(math.pi * level / 2))
        low, high = value - far * spread, value + far * spread
        return (float(np.exp(low)), float(np.exp(high))) if positive else (float(low), float(high))


def products(columns: Sequence[Array]) -> list[Array]:
    """Products of two columns of ``_basis``, whose totals the spreads of resamples need."""
    return [one * other for one, other in combinations_with_replacement(_basis(columns), 2)]


def _basis(columns: Sequence[Array]) -> list[Array]:
    """Residuals of the numerator and the denominator of each ratio: what units move it by."""
    found = []
    for top, bottom in zip(columns[::2], columns[1::2], strict=True):
        found += [top - bottom * (top.sum() / bottom.sum()), bottom]
    return found


def _weights(scale: Ratios, totals: Sequence[Array]) -> list[Array]:
    """By which a residual moves the logarithm of a ratio, or the ratio, times its sign."""
    ends = totals[::2] if scale.form is Form.LOG else totals[1::2]
    return [sign / end for sign, end in zip(scale.signs, ends, strict=True)]


def _spreads(columns: Sequence[Array], scale: Ratios, sums: Sums) -> Array:
    """Deviation of the statistic of each resample, from what each of its units moves it by."""
    totals = sums.of(columns)
    weights = list[Array]()
    for place, weight in enumerate(_weights(scale, totals)):
        top, bottom = 2 * place, 2 * place + 1
        shift = totals[top] / totals[bottom] - columns[top].sum() / columns[bottom].sum()
        weights += [weight, -weight * shift]
    variance, twice = np.zeros_like(totals[0]), [2.0 * weight for weight in weights]
    found = iter(sums.of(products(columns)))
    for place, weight in enumerate(weights):
        row = weight * next(found)
        for other in twice[place + 1 :]:
            row += other * next(found)
        variance += weight * row
    # Rounding can leave less than nothing where no unit moves anything.
    return np.sqrt(np.maximum(variance, 0.0))
