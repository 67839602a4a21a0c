"""How small a defect a test would have caught: without it, "passed" says nothing.

The reference defects are contaminations: at each token, with chance ``share``, a fixed token c is
emitted instead of a draw from the target p. The emitted law is (1 - share) p + share * onehot(c),
at total variation share * (1 - p(c)) from the target. Averaged over all tokens this is the number
reported: the smallest one that the test, at the alpha really applied to it, finds with probability
``POWER``.

Under a contamination the mean of a sum of per-token scores is linear in ``share`` and its variance
quadratic. A score that is ``hit`` at c and ``miss`` elsewhere has, with h = p + share * (1 - p),

    mean      miss + h * (hit - miss)
    variance  h * (1 - h) * (hit - miss)**2.

The sum is taken as normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from specbench.fidelity.columns import Floats

POWER = 0.9
Z_POWER = float(scipy.special.ndtri(POWER))


@dataclass(frozen=True, slots=True)
class Drift:
    """A sum under contamination: mean ``start + slope * share``, variance a quadratic.

    ``variance`` holds the coefficients of 1, share and share**2.
    """

    start: float
    slope: float
    variance: tuple[float, float, float]

    def spare(self, share: float, needed: float) -> float:
        """By how much the sum exceeds ``needed`` with probability ``POWER``."""
        constant, linear, square = self.variance
        variance = max(constant + share * (linear + share * square), 0.0)
        return self.start + share * self.slope - Z_POWER * math.sqrt(variance) - needed

    def smallest_share(self, needed: float) -> float | None:
        """Smallest share at which the sum reaches ``needed`` with probability ``POWER``.

        None where even share 1 does not: the test could not have failed. The variance is concave
        in the share, so ``spare`` is convex, negative at 0, and has one root.
        """
        if self.spare(1.0, needed) <= 0:
            return None
        return float(scipy.optimize.brentq(self.spare, 0.0, 1.0, args=(needed,)))


def two_valued(p: Floats, step: Floats | float, miss: Floats | float = 0.0) -> Drift:
    """Drift of scores ``miss + step`` at c and ``miss`` elsewhere, where c has target mass p [n].

    h * (1 - h) = (1 - p) * (p + share * (1 - 2 p) - share**2 * (1 - p)).
    """
    weight = (1 - p) * np.square(step)
    return Drift(
        start=float(np.sum(miss + p * step)),
        slope=float(np.sum((1 - p) * step)),
        variance=(
            float(np.sum(weight * p)),
            float(np.sum(weight * (1 - 2 * p))),
            -float(np.sum(weight * (1 - p))),
        ),
    )


def surprisal_drift(entropy: Floats, variance: Floats, log_top: Floats) -> Drift:
    """Drift of sum(entropy - surprisal) when the target's first choice is c.

    At c the score is g = entropy + log p(c) >= 0. A draw from the target has mean 0 and the
    target's variance v. The mixture has mean share * g and variance
    (1 - share) * v + share * g**2 - (share * g)**2.
    """
    gain = np.square(entropy + log_top)
    return Drift(
        start=0.0,
        slope=float(np.sum(entropy + log_top)),
        variance=(
            float(np.sum(variance)),
            float(np.sum(gain - variance)),
            -float(np.sum(gain)),
        ),
    )
