"""Token-level tests of "each emitted token was drawn from the target" (ALGORITHMS 6.3).

Under this hypothesis token t follows the recorded target law given everything before it, so the
scores below form martingales over all tokens of a cell, whatever the correlation between tokens.
All but ``eprocess`` hold for a number of tokens fixed beforehand: never stop a run on them.

Evidence that is only known within bounds comes with its ``Doubts``. Each test then takes from its
statistic what the bounds could have put there, so that it holds its level and loses power.

Every result says how small a defect would have been found (``fidelity.detectable``). It names a
reference defect, because no test finds every defect of some size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from specbench.fidelity.columns import Bools, Columns, Floats
from specbench.fidelity.counts import RESOLUTION, count_law, tails
from specbench.fidelity.detectable import Z_POWER, surprisal_drift, two_valued
from specbench.fidelity.doubts import Doubts
from specbench.fidelity.eprocess import STAKES, EProcess

_FLOAT32 = 1e-7
"""A probability closer to 0 or 1 may have been rounded there; certainty would be false."""
_LARGEST_SKEWNESS = 0.5
"""Beyond this a sum of surprisals has too few rare tokens in it for any tail formula."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """Outcome of one test on one cell.

    Attributes:
        name: which test.
        n: tokens it used.
        statistic: its statistic, see the test.
        p: p-value, 1 where no token was usable.
        detectable: total variation from the target per token, averaged over all tokens of the
            cell, at which the test's reference defect is found at ``alpha`` with 90 % power; None
            where even the largest such defect would not have been found.
        alpha: level at which ``detectable`` holds.
        note: what a reader should know besides.
        spoiled: why the bounds of its evidence leave it nothing to find; empty where they do not.
    """

    name: str
    n: int
    statistic: float
    p: float
    detectable: float | None
    alpha: float
    note: str = ""
    spoiled: str = ""


Test = Callable[[Columns, float, Doubts | None], TestResult]


def nothing_usable(name: str, alpha: float) -> TestResult:
    """The result of a test that found no token it could use."""
    return TestResult(name, 0, 0.0, 1.0, None, alpha, "no usable token")


def pit(columns: Columns, alpha: float, doubts: Doubts | None = None) -> TestResult:
    """Kolmogorov-Smirnov distance of U = pit_low + V * pit_width from the uniform law.

    Tokens are ordered by draft/target, or by target where nothing was drafted; the order is fixed
    before the draw. If F is the target's distribution function in this order and V uniform, then
    P(U <= u | the past) = u for every u, so that the U are independent and uniform. A leak of the
    draft into the output piles them up at the low end.

    Reference defect: mass d moved across one point u of the order, so that P(U <= u) = u + d. The
    share of U <= u has mean u + d and a standard deviation of at most 1 / (2 sqrt(n)); it exceeds
    the critical distance D by itself with 90 % power once d = D + z(0.9) / (2 sqrt(n)).
    """
    n = len(columns)
    if n == 0:
        return nothing_usable("pit", alpha)
    u = np.clip(columns.pit_low + columns.uniform * columns.pit_width, 0.0, 1.0)
    slack = 0.0 if doubts is None else float(doubts.pit.mean())
    found = scipy.stats.kstest(u, "uniform")
    p = float(scipy.stats.kstwo.sf(max(0.0, found.statistic - slack), n)) if slack else found.pvalue
    critical = float(scipy.stats.kstwo.isf(alpha, n))
    detectable = critical + slack + Z_POWER / (2 * math.sqrt(n))
    return TestResult(
        "pit",
        n,
        float(found.statistic),
        float(p),
        detectable if detectable < 1 else None,
        alpha,
        spoiled=_spoiled(slack, critical, "of the distance"),
    )


def surprisal(columns: Columns, alpha: float, doubts: Doubts | None = None) -> TestResult:
    """Z = sum(surprisal - entropy) / sqrt(sum of its variance), two-sided.

    The surprisal -log p(x) has the entropy as mean under the target, so Z is a martingale of unit
    variance. Negative: outputs are sharper than the target (a lower temperature, argmax instead
    of a draw); positive: flatter. Tokens without chance say nothing and are left out.

    Surprisals are skewed to the right, which matters far out in the tail of short runs: p comes
    from a Pearson III law with the skewness of the sum. The third moment is not recorded; where
    the spread is due to rare tokens (probability r, surprisal s: entropy r s, variance r s**2,
    third moment r s**3) it is variance**2 / entropy, which is used for all.

    Reference defect: mass moved to the target's first choice (``surprisal_drift``).
    """
    chosen = _uncertain(columns)
    n = int(chosen.sum())
    if n == 0:
        return nothing_usable("surprisal", alpha)
    entropy, variance = columns.entropy[chosen], columns.entropy_variance[chosen]
    scale = math.sqrt(variance.sum())
    slack = 0.0 if doubts is None else float(doubts.entropy[chosen].sum())
    total = float((-columns.log_target[chosen] - entropy).sum())
    z = math.copysign(max(0.0, abs(total) - slack), total) / scale
    skewness = float((variance**2 / np.maximum(entropy, _FLOAT32)).sum()) / scale**3
    if skewness > _LARGEST_SKEWNESS:
        note = f"too few rare tokens for a tail: skewness {skewness:.2g}"
        return TestResult("surprisal", n, z, 1.0, None, alpha, note)
    law = scipy.stats.pearson3(skewness)
    top = columns.target_top[chosen]
    known = top > 0
    drift = surprisal_drift(entropy[known], variance[known], np.log(top[known]))
    critical = -float(law.ppf(alpha / 2)) * scale
    share = drift.smallest_share(critical + slack)
    p = min(1.0, 2 * min(float(law.cdf(z)), float(law.sf(z))))
    detectable = _variation(share, top[known], columns)
    spoiled = _spoiled(slack, critical, "nats of the sum")
    return TestResult("surprisal", n, z, p, detectable, alpha, spoiled=spoiled)


def draft_bias(columns: Columns, alpha: float, doubts: Doubts | None = None) -> TestResult:
    """Emitted tokens that are the draft's first choice, against their expected number, two-sided.

    Over tokens with a draft, each hits with its recorded target probability p. The statistic is
    Z = sum(hit - p) / sqrt(sum p (1 - p)); its p-value comes from the exact law of the count of
    independent hits, which is right where few are expected too. (That p depends on earlier tokens
    leaves Z a martingale; the exact law then stands for it.)

    Reference defect: mass moved to the draft's first choice where one exists. With large counts the
    smallest is close to (z(1 - alpha / 2) + z(0.9)) * sqrt(sum p (1 - p)) / n.
    """
    chosen = _judged(columns)
    n = int(chosen.sum())
    if n == 0:
        return nothing_usable("draft_bias", alpha)
    p = _inside(columns.draft_top_target[chosen])
    hits, expected = int(columns.draft_top_hit[chosen].sum()), float(p.sum())
    law = count_law(p)
    at_most, at_least = tails(law)
    tail = min(float(at_most[hits]), float(at_least[hits]))
    failing = np.flatnonzero(at_least <= alpha / 2)
    share = None
    if len(failing):
        # A count is reached where the continuous sum passes half a hit below it.
        share = two_valued(p, 1.0).smallest_share(float(failing[0]) - 0.5)
    return TestResult(
        "draft_bias",
        n,
        (hits - expected) / math.sqrt(float((p * (1 - p)).sum())),
        min(1.0, max(2 * tail, RESOLUTION)),
        _variation(share, p, columns),
        alpha,
        f"{hits} hits, {expected:.1f} expected",
    )


def eprocess(columns: Columns, alpha: float, doubts: Doubts | None = None) -> TestResult:
    """Largest log E of ``fidelity.eprocess``, p = 1 / largest E, valid at every moment of a run.

    Reference defect: mass moved to the draft's first choice c where one exists, or to the target's
    where nothing was drafted. A stake on the one-hot law of c multiplies its part of the wealth, at
    first 1 / components, by 1 + stake * (1 / p(c) - 1) at a hit and by 1 - stake elsewhere. E is
    at least 1 / alpha once one stake has grown by log(1 / alpha) + log(components). The smallest
    defect is the one at which some stake does so with 90 % power (``two_valued``).
    """
    n = len(columns)
    if n == 0:
        return nothing_usable("eprocess", alpha)
    process = EProcess()
    excess = None if doubts is None else doubts.excess
    process.update(columns, excess)
    drafted = _judged(columns) & (columns.draft_top_target > 0)
    top = columns.draft_top_target[drafted] if drafted.any() else columns.target_top
    p = _inside(top[top > 0])
    needed = math.log(process.components) - math.log(alpha)
    # What bounds cost the wealth: nothing where they are exact.
    lost = [0.0 if excess is None else float(np.log1p(stake * excess).sum()) for stake in STAKES]
    shares = [
        _growth_share(p, float(stake), needed + less)
        for stake, less in zip(STAKES, lost, strict=True)
    ]
    share = min((share for share in shares if share is not None), default=None)
    found = process.detected_at(alpha)
    note = "" if found is None else f"E reached 1 / alpha at token {found}"
    detectable = _variation(share, p, columns)
    spoiled = _spoiled(min(lost), needed, "of log E") if share is None else ""
    return TestResult("eprocess", n, process.max_log_e, process.p, detectable, alpha, note, spoiled)


def _spoiled(slack: float, critical: float, unit: str) -> str:
    if slack <= critical:
        return ""
    return f"its evidence is known to {slack:.2g} {unit}, and {critical:.2g} would be a finding"


def _everything(columns: Columns) -> Bools:
    return np.ones(len(columns), np.bool_)


def _uncertain(columns: Columns) -> Bools:
    return (columns.entropy_variance > 0) & ~columns.outside


def _judged(columns: Columns) -> Bools:
    return columns.drafted & ~np.isnan(columns.draft_top_target)


_SHARING: tuple[tuple[Test, Callable[[Columns], Bools]], ...] = (
    (pit, _everything),
    (surprisal, _uncertain),
    (draft_bias, _judged),
    (eprocess, _everything),
)


def applicable(columns: Columns) -> tuple[Test, ...]:
    """The tests that share a cell's alpha and for which the cell holds tokens."""
    return tuple(test for test, tokens in _SHARING if tokens(columns).any())


def _inside(p: Floats) -> Floats:
    return np.clip(p, _FLOAT32, 1 - _FLOAT32)


def _growth_share(p: Floats, stake: float, needed: float) -> float | None:
    """Smallest share at which one stake's log wealth reaches ``needed`` (c has target mass p)."""
    miss = math.log1p(-stake)
    return two_valued(p, np.log1p(stake * (1 / p - 1)) - miss, miss).smallest_share(needed)


def _variation(share: float | None, p: Floats, columns: Columns) -> float | None:
    """Total variation per token of the cell when ``share`` moves to tokens of target mass p."""
    return None if share is None else share * float((1 - p).sum()) / len(columns)
