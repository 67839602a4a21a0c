"""Emitted tokens that the target can never emit (ALGORITHMS 6.3, item 5)."""

from __future__ import annotations

import scipy

from specbench.fidelity.columns import Columns
from specbench.fidelity.conditional import TestResult, nothing_usable
from specbench.fidelity.detectable import POWER

REPLAY_TOLERANCE = 0.05
"""Tolerance in nats where another kernel computed the probabilities again."""
REPLAY_SHARE = 0.005
"""Share of tokens that rounding may carry further than that in a replay, at most."""


def support(columns: Columns, alpha: float, tolerance: float = 0.0) -> TestResult:
    """Emitted tokens of target probability 0; the statistic is how many lie beyond ``tolerance``.

    On the rows that the rule itself saw the target never emits one: p is 0 or 1, and no alpha is
    spent. In a replay other kernels round the border of a truncation differently. There p is the
    chance of so many among n if each came with ``REPLAY_SHARE``, exact binomial.

    Args:
        tolerance: how far beyond the border a token may lie, in nats; above 0 for a replay.

    Reference defect: mass d outside the support at each token. One of n tokens shows it with chance
    1 - (1 - d)**n, which is 0.9 at d = 1 - 0.1**(1/n); in a replay as many are needed as the share
    cannot explain. Where nothing is truncated no such token exists, so this number never counts
    for a cell.
    """
    n = len(columns)
    if n == 0:
        return nothing_usable("support", alpha)
    outside = int(columns.outside.sum())
    beyond = int((columns.outside & (columns.support_margin < -tolerance)).sum())
    excused = outside - beyond
    note = f"{excused} within {tolerance:g} nats of the border" if excused else ""
    p, needed = (0.0 if beyond else 1.0), 1
    if tolerance > 0:
        p = float(scipy.stats.binom.sf(beyond - 1, n, REPLAY_SHARE))
        needed = int(scipy.stats.binom.isf(alpha, n, REPLAY_SHARE)) + 1
    # P(Binomial(n, d) >= needed) = I_d(needed, n - needed + 1) reaches the power at this d.
    detectable = (
        float(scipy.special.betaincinv(needed, n - needed + 1, POWER)) if needed <= n else None
    )
    return TestResult("support", n, float(beyond), p, detectable, alpha, note)
