"""Anytime-valid evidence against "these tokens are the target's" (ALGORITHMS 6.3, item 2).

A gambler starts with wealth 1 and bets on each token before it is drawn. At token t, with target
law p and some other law a, both fixed by the tokens before, the stake ``epsilon`` on a multiplies
wealth by

    1 - epsilon + epsilon * a(x) / p(x).

If x is drawn from p, the mean of a(x) / p(x) is the mass that a puts on the support of p, at most
1. So the mean factor is at most 1 (exactly 1 where the supports agree): wealth E is a
non-negative supermartingale, and Ville's inequality (1939) bounds P(some E_n >= 1/alpha) by alpha.
A run may be watched, stopped or extended at will (Ramdas, Grunwald, Vovk and Shafer 2023, "Game-
theoretic statistics and safe anytime-valid inference"). If x is drawn from (1 - epsilon) p +
epsilon a, the same stake is the best one: log E grows by the Kullback-Leibler divergence per token.

What is broken is not known, so wealth is spread over several a (``Alternative``) and stakes
(``STAKES``). A sum of such wealths is again one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from specbench.core.trace import LENIENCE
from specbench.fidelity.columns import Bools, Columns, Floats

STAKES = np.array([0.005, 0.02, 0.05, 0.1, 0.2, 0.4])
_BLOCK = 4096
_LARGEST = 700.0
"""Log ratios above are cut, so that no factor overflows; a smaller factor is a valid one."""


class Alternative(StrEnum):
    """Laws that broken acceptance rules lean towards."""

    DRAFT = "draft law"
    """A draft that leaks into the output in proportion to itself."""
    LENIENT = "lenient acceptance"
    """The output law of lenience 1/2 (Leviathan 2211.17192, A.5); close to every other lenience,
    and to residuals of the wrong law, once the stake is chosen."""
    DRAFT_TOP = "draft's first choice"
    """Greedy drafts judged as if they had been sampled."""
    TARGET_TOP = "target's first choice"
    """Argmax where a token should have been drawn."""
    SHARPER = "half the temperature"
    """target**2 / sum of squares: a temperature that is too low."""
    UNTEMPERED = "temperature 1, nothing truncated"
    """Sampling settings ignored."""


def log_ratios(columns: Columns) -> Floats:
    """log a(x) / p(x) of every alternative, [n, alternatives]; nan where one is not defined.

    Whether an alternative is defined at a token must not depend on the token: something was
    drafted there, the first choice has a probability above 0, an untempered law is recorded.
    """
    target, drafted = columns.log_target, columns.drafted
    with np.errstate(divide="ignore", invalid="ignore"):
        found = {
            Alternative.DRAFT: np.where(drafted, columns.log_draft - target, np.nan),
            Alternative.LENIENT: _lenient(columns),
            Alternative.DRAFT_TOP: _one_hot(columns.draft_top_hit, columns.draft_top_target),
            Alternative.TARGET_TOP: _one_hot(columns.target_top_hit, columns.target_top),
            Alternative.SHARPER: target - np.log(columns.sum_squares),
            Alternative.UNTEMPERED: columns.log_untempered - target,
        }
    ratios = np.stack([found[alternative] for alternative in Alternative], axis=1)
    # The support test judges tokens of target probability 0; here they multiply by 1.
    defined = np.stack([_defined(columns, alternative) for alternative in Alternative], axis=1)
    ratios[columns.outside] = 0.0
    return np.where(defined, ratios, np.nan)


def _lenient(columns: Columns) -> Floats:
    """log out(x) / p(x), with out = m + (1 - sum m) norm(relu(p - l q)) and m = min(q, p / l).

    relu(p - l q) is p - l m, so its sum is 1 - l sum m; ``overlap_lenient`` is sum m.
    """
    ratio = np.exp(np.minimum(columns.log_draft - columns.log_target, _LARGEST))
    mass = np.minimum(columns.overlap_lenient, 1.0)
    rest = (1 - mass) / (1 - LENIENCE * mass) * np.maximum(1 - LENIENCE * ratio, 0.0)
    return np.log(np.minimum(ratio, 1 / LENIENCE) + rest)


def _one_hot(hit: Floats, top: Floats) -> Floats:
    return np.log(hit) - np.log(top)


def _defined(columns: Columns, alternative: Alternative) -> Bools:
    match alternative:
        case Alternative.DRAFT:
            return columns.drafted & ~np.isnan(columns.log_draft)
        case Alternative.LENIENT:
            return columns.drafted & ~np.isnan(columns.overlap_lenient + columns.log_draft)
        case Alternative.DRAFT_TOP:
            return columns.drafted & (columns.draft_top_target > 0)
        case Alternative.TARGET_TOP:
            return columns.target_top > 0
        case Alternative.SHARPER:
            return columns.sum_squares > 0
        case Alternative.UNTEMPERED:
            return ~np.isnan(columns.log_untempered)


@dataclass(slots=True)
class EProcess:
    """Wealth of the gambler after ``n`` tokens; feed it with ``update``, in the order observed.

    Wealth is divided equally over alternatives, and inside each over ``STAKES``. An alternative
    takes part from the first token at which it is defined: it is then given an equal share of the
    wealth of that moment. So an arm that drafts nothing spends nothing on draft laws. If all are
    defined from the start, E is the mean over alternatives and stakes of the products of factors.
    Where one that takes part is not defined, its factor is 1: it does not bet on this token.

    Attributes:
        n: tokens seen.
        max_log_e: largest log E so far, E = 1 before the first token included.
    """

    n: int = field(default=0, init=False)
    max_log_e: float = field(default=0.0, init=False)
    _awake: Bools = field(init=False, repr=False)
    _log_shares: Floats = field(init=False, repr=False)
    _record_at: list[NDArray[np.int64]] = field(default_factory=list, init=False, repr=False)
    _records: list[Floats] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._awake = np.zeros(len(Alternative), np.bool_)
        self._log_shares = np.full((len(Alternative), len(STAKES)), -np.inf)

    def update(self, columns: Columns, excess: Floats | None = None) -> None:
        """Add tokens; any division of the same tokens into calls gives the same result.

        Args:
            excess: [n] by how much the mean of a(x) / p(x) may exceed 1 because p is only known
                within bounds. Wealth is divided by the mean that a factor may then have.
        """
        ratios = log_ratios(columns)
        for start in range(0, len(ratios), _BLOCK):
            block = ratios[start : start + _BLOCK]
            defined = ~np.isnan(block)
            factors = log_factors(np.where(defined, block, 0.0))
            if excess is not None:
                factors -= np.log1p(excess[start : start + _BLOCK, None, None] * STAKES)
            entries = defined.argmax(0)[defined.any(0) & ~self._awake]
            for begin, end in pairwise(sorted({0, *entries.tolist(), len(block)})):
                self._admit(defined[begin] & ~self._awake)
                self._play(factors[begin:end])

    @property
    def log_e(self) -> float:
        """Natural logarithm of the wealth now."""
        return float(logsumexp(self._log_shares)) if self._awake.any() else 0.0

    @property
    def p(self) -> float:
        """A p-value that holds at every moment: min(1, 1 / largest E so far)."""
        return math.exp(-self.max_log_e)

    @property
    def components(self) -> int:
        """Over how many pairs of alternative and stake the wealth is spread."""
        return int(self._awake.sum()) * len(STAKES)

    def detected_at(self, alpha: float) -> int | None:
        """Index of the first token, from 0, after which E >= 1 / alpha; None where none was."""
        if self.max_log_e < -math.log(alpha):
            return None
        records, at = np.concatenate(self._records), np.concatenate(self._record_at)
        return int(at[np.searchsorted(records, -math.log(alpha))])

    def _admit(self, new: Bools) -> None:
        """Give alternatives that are defined for the first time their share of the wealth."""
        if not new.any():
            return
        total = int(self._awake.sum() + new.sum())
        share = self.log_e - math.log(total * len(STAKES))
        if self._awake.any():
            self._log_shares[self._awake] += math.log(self._awake.sum() / total)
        self._log_shares[new] = share
        self._awake |= new

    def _play(self, factors: Floats) -> None:
        """Multiply by log factors [m, alternatives, stakes] of m tokens, and note new records."""
        if self._awake.any():
            factors[0] += self._log_shares
            path = factors.cumsum(0)
            self._log_shares = path[-1].copy()
            log_e = logsumexp(path, axis=(1, 2))
            before = np.maximum.accumulate(np.concatenate([[self.max_log_e], log_e[:-1]]))
            at = np.flatnonzero(log_e > before)
            if len(at):
                self._record_at.append(self.n + at)
                self._records.append(log_e[at])
                self.max_log_e = float(log_e[at[-1]])
        self.n += len(factors)


def log_factors(ratios: Floats) -> Floats:
    """log(1 - stake + stake * exp(ratio)), shape of ``ratios`` plus [stakes]; exactly 0 at 0."""
    gains: Floats = np.expm1(np.minimum(ratios, _LARGEST))
    return np.log1p(STAKES * gains[..., None])
