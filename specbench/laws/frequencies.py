"""Counts of emitted tokens against known laws: chi-square, and what it would have caught.

A context is whatever is known before a token is drawn: where in the round, which tokens before.
Under a right sampler the tokens of a context are multinomial with the target's row
(ALGORITHMS 1.8), whatever the other contexts hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

FEWEST_EXPECTED = 5.0
"""Smallest expected count of a bin; smaller ones are merged."""
POWER = 0.9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Context:
    """Tokens of one context.

    Attributes:
        counts: [V] emitted tokens.
        target: [V] their law.
        leak: [V] the law of a defect: mass moved to what the draft likes most.
    """

    counts: Floats
    target: Floats
    leak: Floats


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """A goodness-of-fit test over contexts.

    Attributes:
        statistic, freedom, p: its result; p = 1 without a degree of freedom.
        n: tokens.
        off: mean total variation of the observed shares, sampling noise included.
        detectable: mean total variation that it would have found with probability ``POWER`` if
            a share of the tokens came from ``leak``; infinite where nothing could be found.
    """

    statistic: float
    freedom: int
    p: float
    n: int
    off: float
    detectable: float


def leak(target: Floats, draft: Floats) -> Floats:
    """One-hot law of the draft's first choice among the target's tokens, or of the target's own."""
    inside = np.where(target > 0, draft, 0.0)
    first = int(inside.argmax()) if inside.any() else int(target.argmax())
    return np.eye(len(target))[first]


def impossible(contexts: Sequence[Context]) -> int:
    """Tokens of target probability 0; one is enough to convict."""
    return sum(int(c.counts[c.target == 0].sum()) for c in contexts)


def chi_square(contexts: Sequence[Context], alpha: float) -> ChiSquare:
    """Pearson's test with one multinomial per context, bins merged to ``FEWEST_EXPECTED``."""
    statistic, freedom, divergence, moved, off, n = 0.0, 0, 0.0, 0.0, 0.0, 0.0
    for context in contexts:
        total = context.counts.sum()
        n += total
        moved += total * np.abs(context.leak - context.target).sum() / 2
        if total:
            off += total * np.abs(context.counts / total - context.target).sum() / 2
        bins = _bins(total * context.target)
        if bins is None:
            continue
        counts, target, leaked = (
            np.bincount(bins, weights=w) for w in (context.counts, context.target, context.leak)
        )
        expected = total * target / target.sum()
        statistic += float(((counts - expected) ** 2 / expected).sum())
        freedom += len(expected) - 1
        divergence += float(total * ((leaked - target) ** 2 / target).sum())
    if not freedom or not divergence:
        return ChiSquare(statistic, freedom, 1.0, int(n), off / max(n, 1.0), np.inf)
    share = np.sqrt(_noncentrality(freedom, alpha) / divergence)
    return ChiSquare(
        statistic,
        freedom,
        float(scipy.stats.chi2.sf(statistic, freedom)),
        int(n),
        off / n,
        float(share * moved / n) if share <= 1 else np.inf,
    )


def _bins(expected: Floats) -> NDArray[np.int64] | None:
    """Bin of every token; small ones join one bin, or the smallest large one. None without two."""
    large = expected >= FEWEST_EXPECTED
    bins = np.zeros(len(expected), np.int64)
    bins[large] = np.arange(large.sum())
    rest = expected[~large].sum()
    count = int(large.sum())
    if rest >= FEWEST_EXPECTED:
        bins[~large] = count
        count += 1
    elif count:
        bins[~large] = bins[np.where(large, expected, np.inf).argmin()]
    return bins if count >= 2 else None


def _noncentrality(freedom: int, alpha: float) -> float:
    """Noncentrality at which a chi-square test at ``alpha`` rejects with probability ``POWER``."""
    critical = scipy.stats.chi2.isf(alpha, freedom)

    def missing(value: float) -> float:
        return float(scipy.stats.ncx2.sf(critical, freedom, value)) - POWER

    return float(scipy.optimize.brentq(missing, 1e-6, 10 * (critical + 100)))
