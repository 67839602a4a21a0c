"""What a run of this size could have shown at all."""

from __future__ import annotations

import math
from dataclasses import replace

from numpy.typing import ArrayLike

from specbench.core.quantity import Quantity
from specbench.stats.bootstrap import unit_columns
from specbench.stats.ratios import RATIO_OF_RATIOS
from specbench.stats.spread import detectable

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

    exp(d) - 1, with d what ``stats.spread.detectable`` says of the log ratio of totals.

    Args:
        groups: start of the server of each unit; several are resampled first (``stats.nested``).
    """
    columns = unit_columns(numerator_a, denominator_a, numerator_b, denominator_b)
    found = detectable(
        columns, RATIO_OF_RATIOS.log, seed=seed, unit="1", alpha=alpha, power=power, groups=groups
    )
    return replace(found, value=math.expm1(found.number())) if found.known else found
