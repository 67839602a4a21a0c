"""How far a statistic of totals varies between resamples, and the difference that this hides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, RESAMPLES
from specbench.stats.nested import nested_counts, several
from specbench.stats.ratios import Array, Ratios
from specbench.stats.resamples import Sums, drawn, totals


def detectable(
    columns: Sequence[Array],
    statistic: Ratios,
    *,
    seed: int,
    unit: str,
    alpha: float,
    power: float,
    groups: ArrayLike | None = None,
    sums: Sums | None = None,
) -> Quantity:
    """(z(1 - alpha/2) + z(power)) * s, with s the bootstrap deviation of a statistic over units.

    A two-sided test at ``alpha`` finds a statistic that is this far from its value under no
    difference with probability ``power`` (normal approximation).

    Args:
        columns: totals, one entry per unit.
        statistic: of the columns.
        groups: start of the server of each unit; several are resampled first (``stats.nested``).
        sums: of ``bootstrap.resampled``, made with this seed and read where units are of one group;
            None: they are made here.
    """
    units = len(columns[0])
    if units < FEWEST_UNITS:
        return nothing(f"{units} independent units, {FEWEST_UNITS} are needed", unit)
    if groups is not None and several(groups):
        times = nested_counts(groups, RESAMPLES, np.random.default_rng(seed))
        found = statistic.at(totals(times, columns))
    else:
        sums = sums or Sums(drawn(units, RESAMPLES, seed), columns)
        found = statistic.at(sums.of(columns))
    if not np.isfinite(found).all():
        return nothing("some resamples hold no observation", unit)
    z = float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    name = f"two-sided alpha {alpha:g}, power {power:g}, bootstrap spread over {units} units"
    return Quantity(z * float(found.std(ddof=1)), unit, n=units, method=name)
