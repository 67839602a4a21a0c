"""The smallest difference of two ratios of totals that so many paired units could show."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, RESAMPLES
from specbench.stats.power import ALPHA, POWER


def detectable_gap(
    numerator_a: ArrayLike,
    denominator_a: ArrayLike,
    numerator_b: ArrayLike,
    denominator_b: ArrayLike,
    *,
    seed: int,
    unit: str,
    alpha: float = ALPHA,
    power: float = POWER,
) -> Quantity:
    """(z(1 - alpha/2) + z(power)) * s, with s the bootstrap deviation of the difference.

    A two-sided test at ``alpha`` finds a difference of this size between
    sum num_a / sum den_a and sum num_b / sum den_b with probability ``power`` (normal
    approximation). The counterpart of ``stats.power.detectable_difference``, which is relative.
    """
    columns = [
        np.asarray(column, np.float64)
        for column in (numerator_a, denominator_a, numerator_b, denominator_b)
    ]
    units = len(columns[0])
    if units < FEWEST_UNITS:
        return nothing(f"{units} independent units, {FEWEST_UNITS} are needed", unit)
    rng = np.random.default_rng(seed)
    times = rng.multinomial(units, np.full(units, 1 / units), size=RESAMPLES)
    top_a, bottom_a, top_b, bottom_b = (times @ column for column in columns)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = top_a / bottom_a - top_b / bottom_b
    if not np.isfinite(found).all():
        return nothing("some resamples hold no observation", unit)
    z = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))
    name = f"two-sided alpha {alpha:g}, power {power}, bootstrap spread over {units} units"
    return Quantity(z * float(found.std(ddof=1)), unit, n=units, method=name)
