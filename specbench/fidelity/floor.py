"""The noise floor at temperature 0: does an arm differ from plain more often than plain itself?

Plain decoding repeated at temperature 0 need not agree with itself: batch shapes change the last
bits of the logits. An arm may differ from plain as often as plain differs from itself (case A4).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import scipy

ALPHA = 0.05
POWER = 0.9


@dataclass(frozen=True, slots=True)
class Agreement:
    """``agree`` of ``n`` independent comparisons found no difference."""

    agree: int
    n: int

    def __post_init__(self) -> None:
        if not 0 <= self.agree <= self.n:
            raise ValueError(f"agree must be in 0..{self.n}, got {self.agree}")

    def __str__(self) -> str:
        return f"{self.agree}/{self.n}"


class Floor(StrEnum):
    """``NONE``: the reference was never repeated. ``TOO_FEW``: no outcome could have failed."""

    WITHIN = "within noise floor"
    BELOW = "below the floor"
    NONE = "no floor"
    TOO_FEW = "too few"


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Whether an arm agrees with the reference as often as the reference agrees with itself.

    Attributes:
        verdict: see ``Floor``.
        arm: arm against reference.
        reference: reference against itself.
        p: one-sided p of "the arm agrees as often", None without comparisons.
        detectable: smallest drop of the arm's agreement rate under the observed rate of the
            reference that would have been ``BELOW`` with 90 % power; None where there is none.
    """

    verdict: Floor
    arm: Agreement
    reference: Agreement
    p: float | None = None
    detectable: float | None = None

    def __str__(self) -> str:
        if self.verdict is Floor.NONE:
            return f"{self.arm} agree; plain was not repeated, so there is no floor"
        parts = [f"{self.verdict}: {self.arm} agree, reference with itself {self.reference}"]
        if self.p is not None:
            parts.append(f"p={self.p:.2g}")
        if self.detectable is not None:
            parts.append(f"would have caught a drop of {self.detectable:.2g}")
        return ", ".join(parts)


def noise_floor(arm: Agreement, reference: Agreement, *, alpha: float = ALPHA) -> NoiseFloor:
    """Judge an arm's agreement with the reference by the reference's agreement with itself.

    Fisher's exact test, one-sided: given how many of all comparisons agree, the number that falls
    to the arm is hypergeometric, whatever the common rate is. It holds its level at any n and
    treats the floor as the sample that it is; a binomial test against the floor's observed rate
    would take it as known and accuse too often, and Barnard's test needs a search over the
    unknown rate for a little more power. Prompts differ in how predictable they are; with the
    same prompts on both sides that only makes the test more careful.

    A perfect floor excuses nothing: where the reference never disagreed with itself, no noise was
    seen, and one disagreement is enough to be below it. That is a rule, not a test, and ``p`` may
    be large. Ties (``greedy.compare``) are to be counted as agreement on both sides.

    Args:
        arm, reference: counts of the same kind, over the same prompts.
        alpha: the arm is below an imperfect floor where p <= alpha.
    """
    if reference.n == 0:
        return NoiseFloor(Floor.NONE, arm, reference)
    if arm.n == 0:
        return NoiseFloor(Floor.TOO_FEW, arm, reference)
    count = np.arange(arm.n + 1)
    p_values = scipy.stats.hypergeom.cdf(count, arm.n + reference.n, count + reference.agree, arm.n)
    failing = p_values <= alpha
    if reference.agree == reference.n:
        failing = count < arm.n
    p = float(p_values[arm.agree])
    if not failing.any():
        return NoiseFloor(Floor.TOO_FEW, arm, reference, p)
    verdict = Floor.BELOW if failing[arm.agree] else Floor.WITHIN
    most = int(count[failing].max())
    # P(Binomial(n, r) <= most) = 1 - I_r(most + 1, n - most), which falls as r grows.
    caught = float(scipy.special.betaincinv(most + 1, arm.n - most, 1 - POWER))
    return NoiseFloor(verdict, arm, reference, p, reference.agree / reference.n - caught)
