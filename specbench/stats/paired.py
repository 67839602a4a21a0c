"""Paired tests: is the difference between two arms on the same units larger than chance?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from specbench.stats.bootstrap import unit_columns
from specbench.stats.ratios import QUOTIENT, Array, Ratios
from specbench.stats.resamples import Sums, all_swaps, swaps

RESAMPLES = 9999
ROUNDING = 1e-12
"""Relative difference below which two sums are equal."""


def permutation_ratio(
    numerator_a: ArrayLike,
    denominator_a: ArrayLike,
    numerator_b: ArrayLike,
    denominator_b: ArrayLike,
    *,
    seed: int,
) -> float:
    """Two-sided p-value of "the ratio of totals is 1", swapping the arms inside each unit.

    The statistic is the logarithm of (sum num_a / sum den_a) / (sum num_b / sum den_b). All 2^n
    swaps are enumerated where they are few, else ``RESAMPLES`` are drawn and p is
    (1 + as extreme) / (1 + drawn).
    """
    first = unit_columns(numerator_a, denominator_a)
    second = unit_columns(numerator_b, denominator_b)
    return permutation_statistic(first, second, QUOTIENT, seed=seed)


def permutation_statistic(
    a: Sequence[Array],
    b: Sequence[Array],
    statistic: Ratios,
    *,
    seed: int,
    sums: Sums | None = None,
) -> float:
    """Two-sided p-value of "a statistic is the same of both arms", swapping them inside each unit.

    What is tested is the logarithm of statistic(a) / statistic(b).

    Args:
        a, b: columns of one entry per unit, the same ones of both arms.
        statistic: of an arm's columns; a product, which is positive.
        sums: of ``swapped``, made with this seed; None: they are made here.
    """
    both = statistic.over(statistic).log
    return _swap_test(a, b, lambda mine, others: both.at([*mine, *others]), seed, sums)


def swapped(asked: Sequence[tuple[Sequence[Array], Sequence[Array]]], seed: int) -> Sums:
    """What ``permutation_statistic`` reads of several pairs of arms, in one product.

    Args:
        asked: columns of both arms, all of one number of units; at least one of these.
        seed: seed of the swaps.
    """
    rows = swaps(len(asked[0][0][0]), RESAMPLES, seed)
    return Sums(rows, [moved for a, b in asked for moved in _moved(a, b)])


def _moved(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
    """What a swap of a unit adds to the totals of a, and takes off those of b."""
    return [other - one for one, other in zip(a, b, strict=True)]


def permutation_mean_difference(a: ArrayLike, b: ArrayLike, *, seed: int) -> float:
    """Two-sided p-value of "the mean of a - b is 0", swapping a and b inside each unit."""
    first, second = unit_columns(a, b)
    # Units are as many on both sides: means differ as totals do.
    return _swap_test([first], [second], lambda mine, others: mine[0] - others[0], seed)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p-value for paired right/wrong answers (McNemar 1947).

    Args:
        only_a, only_b: items that only a, or only b, answered correctly. Items on which both
            agree say nothing about the difference.
    """
    discordant = only_a + only_b
    return float(scipy.stats.binomtest(only_a, discordant).pvalue) if discordant else 1.0


def _swap_test(
    a: Sequence[Array],
    b: Sequence[Array],
    difference: Callable[[Sequence[Array], Sequence[Array]], Array],
    seed: int,
    sums: Sums | None = None,
) -> float:
    """p-value of a difference of two sides' totals, 0 where nothing differs.

    All 2^n swaps are enumerated where they are few, else ``RESAMPLES`` are drawn and p is
    (1 + as extreme) / (1 + drawn), on either side; twice the smaller is returned.
    """
    units = len(a[0])
    if units < 2:
        return 1.0  # one swap and its mirror image: nothing can be shown
    moved = (sums or swapped([(a, b)], seed)).of(_moved(a, b))
    mine = [one.sum() + shift for one, shift in zip(a, moved, strict=True)]
    others = [other.sum() - shift for other, shift in zip(b, moved, strict=True)]
    found = difference(mine, others)
    seen = difference([one.sum() for one in a], [other.sum() for other in b])
    # Sums of the same numbers in another order are the same number.
    slack = ROUNDING * abs(float(seen))
    added = 0 if all_swaps(units, RESAMPLES) else 1
    beyond = [np.count_nonzero(found <= seen + slack), np.count_nonzero(found >= seen - slack)]
    return float(min(1.0, 2 * (min(beyond) + added) / (len(found) + added)))
