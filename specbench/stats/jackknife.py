"""A statistic of totals with its jackknife error, and one-sided bounds by Student's t.

For tails that resamples do not reach: of 4,999 of them none tells a chance of 1 in 10,000.

Units count by what they hold: a few long prompts among many short ones know the error as badly as
few prompts do. So the degrees of freedom are those of the effective number of units, (sum w)^2 /
sum w^2 (Kish 1965, section 11.7), the smallest of all columns. ``tests/stats/test_spending.py``
simulates what the bounds then keep.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from specbench.stats.ratios import Array, Ratios


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic of independent units.

    Attributes:
        error: its standard error; infinite where there is none.
        units: that were left out in turn.
        effective: how many of one size they are worth.
    """

    value: float
    error: float
    units: int
    effective: float

    def half_width(self, tail: float) -> float:
        """How far away a bound is that is missed with chance ``tail``."""
        if not self.error:
            return 0.0
        known = math.isfinite(self.error) and self.effective > 1
        return (
            float(scipy.stats.t.isf(tail, self.effective - 1)) * self.error if known else math.inf
        )


def jackknife(columns: Sequence[Array], statistic: Ratios) -> Estimate:
    """Delete-one jackknife (Efron and Tibshirani 1993, equation 11.5).

    Args:
        columns: totals, one entry per unit.
        statistic: of the columns.
    """
    units = len(columns[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(*columns))
        left_out = statistic.at([column.sum() - column for column in columns])
        effective = min(float(column.sum() ** 2 / (column @ column)) for column in columns)
    if units < 2 or not np.isfinite(left_out).all():
        return Estimate(value, math.inf, units, effective)
    spread = left_out - left_out.mean()
    error = math.sqrt((units - 1) / units * float(spread @ spread))
    return Estimate(value, error, units, effective)
