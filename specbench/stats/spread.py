"""How far a statistic of totals varies between resamples, and the difference that this hides."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, RESAMPLES
from specbench.stats.nested import nested_counts, several
from specbench.stats.resamples import Array, Statistic, drawn_totals, of_totals, totals


def detectable(
    columns: tuple[Array, ...],
    statistic: Statistic,
    *,
    seed: int,
    unit: str,
    alpha: float,
    power: float,
    groups: ArrayLike | None = None,
) -> Quantity:
    """(z(1 - alpha/2) + z(power)) * s, with s the bootstrap deviation of a statistic over units.

    A two-sided test at ``alpha`` finds a statistic that is this far from its value under no
    difference with probability ``power`` (normal approximation).

    Args:
        columns: totals, one entry per unit.
        statistic: of the columns, along the axis of units.
        groups: start of the server of each unit; several are resampled first (``stats.nested``).
    """
    units = len(columns[0])
    if units < FEWEST_UNITS:
        return nothing(f"{units} independent units, {FEWEST_UNITS} are needed", unit)
    if groups is not None and several(groups):
        sums = totals(nested_counts(groups, RESAMPLES, np.random.default_rng(seed)), columns)
    else:
        sums = drawn_totals(columns, RESAMPLES, seed)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = of_totals(statistic, sums)
    if not np.isfinite(found).all():
        return nothing("some resamples hold no observation", unit)
    z = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power))
    name = f"two-sided alpha {alpha:g}, power {power:g}, bootstrap spread over {units} units"
    return Quantity(z * float(found.std(ddof=1)), unit, n=units, method=name)
