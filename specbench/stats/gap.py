"""The smallest difference of two ratios of totals that so many paired units could show."""

from __future__ import annotations

from numpy.typing import ArrayLike

from specbench.core.quantity import Quantity
from specbench.stats.bootstrap import unit_columns
from specbench.stats.power import ALPHA, POWER
from specbench.stats.ratios import DIFFERENCE
from specbench.stats.spread import detectable


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
    """What ``stats.spread.detectable`` says of sum num_a / sum den_a - sum num_b / sum den_b.

    The counterpart of ``stats.power.detectable_difference``, which is relative.
    """
    columns = unit_columns(numerator_a, denominator_a, numerator_b, denominator_b)
    return detectable(columns, DIFFERENCE, seed=seed, unit=unit, alpha=alpha, power=power)
