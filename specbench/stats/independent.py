"""Tokens per step where every drafted token is accepted with one chance, whatever came before it.

ALGORITHMS 2.1.
"""

from __future__ import annotations

from scipy.optimize import brentq


def expected_length(acceptance: float, k: int) -> float:
    """(1 - a^(K+1)) / (1 - a), tokens per step with the recovered or bonus token."""
    return sum(acceptance**power for power in range(k + 1))


def iid_root(mean_accepted: float, k: int) -> float:
    """The acceptance a with ``expected_length(a, k)`` = 1 + ``mean_accepted``."""
    if not 0.0 <= mean_accepted <= k:
        raise ValueError(f"accepted mean {mean_accepted} is outside 0 .. K = {k}")
    return float(brentq(lambda a: expected_length(a, k) - 1 - mean_accepted, 0.0, 1.0, xtol=1e-14))
