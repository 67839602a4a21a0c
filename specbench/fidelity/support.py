"""Emitted tokens that the target can never emit (ALGORITHMS 6.3, item 5)."""

from __future__ import annotations

from specbench.fidelity.columns import Columns
from specbench.fidelity.conditional import TestResult, nothing_usable
from specbench.fidelity.detectable import POWER

REPLAY_TOLERANCE = 0.05
"""Tolerance in nats where another kernel computed the probabilities again."""


def support(columns: Columns, alpha: float, tolerance: float = 0.0) -> TestResult:
    """Emitted tokens of target probability 0; the statistic is how many lie beyond ``tolerance``.

    The target never emits one: p is 0 or 1, and no alpha is spent.

    Args:
        tolerance: how far below the smallest kept probability, in nats before truncation, a token
            may lie. 0 for the rows that the rule itself saw; above 0 for a replay, whose kernels
            round ties at the border of top-k or top-p differently.

    Reference defect: mass d outside the support at each token. One of n tokens shows it with chance
    1 - (1 - d)**n, which is 0.9 at d = 1 - 0.1**(1/n). Where nothing is truncated no such token
    exists, so this number never counts for a cell.
    """
    n = len(columns)
    if n == 0:
        return nothing_usable("support", alpha)
    outside = int(columns.outside.sum())
    beyond = int((columns.outside & (columns.support_margin < -tolerance)).sum())
    excused = outside - beyond
    note = f"{excused} within {tolerance:g} nats of the border" if excused else ""
    return TestResult(
        "support",
        n,
        float(beyond),
        0.0 if beyond else 1.0,
        1 - (1 - POWER) ** (1 / n),
        alpha,
        note,
    )
