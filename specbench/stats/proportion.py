"""Intervals for a share of independent yes/no observations."""

from __future__ import annotations

import scipy

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import LEVEL


def wilson(successes: int, n: int, *, level: float = LEVEL) -> Quantity:
    """Share of successes with the Wilson score interval (Wilson 1927), unit 1."""
    if n == 0:
        return nothing("no observation", "1")
    bounds = scipy.stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    low, high = float(bounds.low), float(bounds.high)
    return Quantity(successes / n, "1", low, high, level, n, f"wilson over {n} observations")
