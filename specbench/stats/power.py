"""What a run of this size could have shown at all."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, RESAMPLES, ratio_of_ratios
from specbench.stats.nested import nested_counts, several

ALPHA = 0.05
POWER = 0.8


def detectable_difference(
    numerator_a: ArrayLike,
    denominator_a: ArrayLike,
    numerator_b: ArrayLike,
    denominator_b: ArrayLike,
    *,
    seed: int,
    alpha: float = ALPHA,
    power: float = POWER,
    groups: ArrayLike | None = None,
) -> Quantity:
    """Smallest relative difference between paired arms that this many units could show, unit 1.

    exp((z(1 - alpha/2) + z(power)) * s) - 1, with s the bootstrap standard deviation of the log
    ratio of totals over units: a two-sided test at ``alpha`` finds a difference of this size with
    probability ``power`` (normal approximation).

    Args:
        groups: start of the server of each unit; several are resampled first (``stats.nested``).
    """
    columns = [
        np.asarray(column, np.float64)
        for column in (numerator_a, denominator_a, numerator_b, denominator_b)
    ]
    units = len(columns[0])
    if units < FEWEST_UNITS:
        return nothing(f"{units} independent units, {FEWEST_UNITS} are needed", "1")
    rng = np.random.default_rng(seed)
    if groups is not None and several(groups):
        times = nested_counts(groups, RESAMPLES, rng)
    else:
        times = rng.multinomial(units, np.full(units, 1 / units), size=RESAMPLES)
    totals = [(times @ column)[:, None] for column in columns]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(ratio_of_ratios(totals[0], totals[1], totals[2], totals[3]))
    if not np.isfinite(logs).all():
        return nothing("some resamples hold no observation", "1")
    z = stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)
    value = math.expm1(float(z) * float(logs.std(ddof=1)))
    name = f"two-sided alpha {alpha}, power {power}, bootstrap spread over {units} units"
    return Quantity(value, "1", n=units, method=name)
