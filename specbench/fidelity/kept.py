"""Which part of a listed row survives temperature and truncation, where the rest is only bounded.

A server lists the k likeliest tokens of a position. What it does not list is one outcome here, the
rest: its mass at temperature 1 is known, and under another temperature it lies between bounds that
follow from every unlisted token being no likelier than the last listed one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.core.request import Sampling


@dataclass(frozen=True, slots=True)
class Range:
    """A number known to lie in [low, high]; ``high`` may be infinite."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TopRow:
    """The likeliest tokens of one position, at temperature 1 and without any truncation.

    Attributes:
        ids: int64 [k], likeliest first.
        logs: float64 [k], natural logarithms of their probabilities, falling.
        vocabulary: how many tokens there are; None = not known.
        rounding: by how much probabilities of a server may fail to add up to 1.
    """

    ids: NDArray[np.int64]
    logs: NDArray[np.float64]
    vocabulary: int | None = None
    rounding: float = 1e-5

    def __post_init__(self) -> None:
        if len(self.ids) == 0 or self.ids.shape != self.logs.shape:
            raise ValueError(f"a row of {len(self.ids)} ids and {len(self.logs)} logarithms")
        if bool((np.diff(self.logs) > 0).any()):
            raise ValueError("a row that is not ordered by probability")

    @property
    def complete(self) -> bool:
        """Whether every token is listed."""
        return self.vocabulary is not None and len(self.ids) >= self.vocabulary

    @property
    def rest(self) -> Range:
        """Mass of what is not listed, at temperature 1."""
        if self.complete:
            return Range(0.0, 0.0)
        mass = 1 - float(np.exp(self.logs).sum())
        return Range(max(0.0, mass - self.rounding), max(0.0, mass + self.rounding))


@dataclass(frozen=True, slots=True)
class Kept:
    """What survives, in units of the tempered weight of the likeliest token.

    Attributes:
        weights: float64 [k], tempered weights of the listed tokens, the first one 1.
        fewest, most: between how many of them survive.
        rest: tempered weight of unlisted tokens that survive.
        unlisted: tempered weight of those that top-p and min-p chose from.
    """

    weights: NDArray[np.float64]
    fewest: int
    most: int
    rest: Range
    unlisted: Range


def kept(row: TopRow, sampling: Sampling) -> Kept:
    """Apply temperature, top-k, top-p and min-p, in the order of ``decoding.sampling``.

    With a = 1 / T, mass m unlisted, the last listed probability c and U unlisted tokens, the sum
    of q**a over the unlisted lies between m c**(a - 1) (all as likely as c) and m**a U**(1 - a)
    (all alike): the first is the larger for T < 1, the second for T > 1.
    """
    a = 1 / sampling.temperature
    weights = np.exp(a * (row.logs - row.logs[0]))
    count, cap = len(weights), float(weights[-1])
    unlisted = None if row.vocabulary is None else max(row.vocabulary - count, 0)
    rest = _tempered_rest(row, a, unlisted)
    fewest = most = count
    if 0 < sampling.top_k <= count:
        fewest = most = sampling.top_k
        rest = Range(0.0, 0.0)
    elif sampling.top_k > count and rest.high > 0:
        more = sampling.top_k - count
        share = 0.0 if unlisted is None else min(1.0, more / max(unlisted, 1))
        rest = Range(rest.low * share, min(rest.high, more * cap))
    chosen_from = rest
    if sampling.top_p < 1:
        fewest, most, rest = _top_p(weights, most, rest, sampling.top_p)
    if sampling.min_p > 0:
        above = int((weights >= sampling.min_p).sum())
        fewest, most = min(fewest, above), min(most, above)
        rest = Range(0.0, 0.0 if cap < sampling.min_p else rest.high)
    return Kept(weights, fewest, most, rest, chosen_from)


def _tempered_rest(row: TopRow, a: float, unlisted: int | None) -> Range:
    mass, last = row.rest, float(np.exp(row.logs[-1]))
    scale = float(np.exp(-a * row.logs[0]))
    if mass.high == 0 or unlisted == 0:
        return Range(0.0, 0.0)

    def steep(m: float) -> float:
        return float(scale * m * last ** (a - 1))

    def flat(m: float) -> float:
        if unlisted is None:
            # Infinitely many equal tokens: a power above 1 loses them, one below 1 explodes.
            return 0.0 if a > 1 or m == 0 else np.inf
        return float(scale * m**a * unlisted ** (1 - a))

    if a == 1:
        return Range(scale * mass.low, scale * mass.high)
    ends = (steep, flat)
    return Range(min(end(mass.low) for end in ends), max(end(mass.high) for end in ends))


def _top_p(
    weights: NDArray[np.float64], count: int, rest: Range, top_p: float
) -> tuple[int, int, Range]:
    """How many of the first ``count`` stay, and how much of the rest: a token stays if the mass
    before it is below ``top_p`` of all."""
    upto = weights[:count].cumsum()
    before, listed, cap = upto - weights[:count], float(upto[-1]), float(weights[-1])
    low, high = (top_p * (listed + end) for end in (rest.low, rest.high))
    fewest, most = int((before < low).sum()), int((before < high).sum())
    if listed >= high:
        return fewest, most, Range(0.0, 0.0)
    return fewest, most, Range(max(0.0, low - listed), min(rest.high, high - listed + cap))
