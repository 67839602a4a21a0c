"""Paired tests: is the difference between two arms on the same units larger than chance?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from specbench.stats.bootstrap import Array, Statistic, quotient, unit_columns

RESAMPLES = 9999


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
    return permutation_statistic(first, second, quotient, seed=seed)


def permutation_statistic(
    a: Sequence[Array], b: Sequence[Array], statistic: Statistic, *, seed: int
) -> float:
    """Two-sided p-value of "a statistic is the same of both arms", swapping them inside each unit.

    What is tested is the logarithm of statistic(a) / statistic(b).

    Args:
        a, b: columns of one entry per unit, the same ones of both arms.
        statistic: of an arm's columns, along the axis of units; positive.
    """
    columns = [np.concatenate([one, other]) for one, other in zip(a, b, strict=True)]

    def log_ratio(first: NDArray[np.int64], second: NDArray[np.int64], axis: int = -1) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = (
                statistic(*(column[index] for column in columns), axis=axis)
                for index in (first, second)
            )
            return np.log(one / other)

    return _swap_test(len(a[0]), log_ratio, seed)


def permutation_mean_difference(a: ArrayLike, b: ArrayLike, *, seed: int) -> float:
    """Two-sided p-value of "the mean of a - b is 0", swapping a and b inside each unit."""
    values = np.concatenate([np.asarray(a, float), np.asarray(b, float)])

    def difference(first: NDArray[np.int64], second: NDArray[np.int64], axis: int = -1) -> Any:
        return (values[first] - values[second]).mean(axis=axis)

    return _swap_test(len(values) // 2, difference, seed)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p-value for paired right/wrong answers (McNemar 1947).

    Args:
        only_a, only_b: items that only a, or only b, answered correctly. Items on which both
            agree say nothing about the difference.
    """
    discordant = only_a + only_b
    return float(stats.binomtest(only_a, discordant).pvalue) if discordant else 1.0


def _swap_test(units: int, statistic: Any, seed: int) -> float:
    """scipy swaps observations, not pairs of columns: hand it indices and look the columns up."""
    if units < 2:
        return 1.0  # one swap and its mirror image: nothing can be shown
    index = np.arange(units)
    found = stats.permutation_test(
        (index, index + units),
        lambda first, second, axis=-1: statistic(first.astype(int), second.astype(int), axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, 4_000_000 // units),
        random_state=np.random.default_rng(seed),
    )
    return float(found.pvalue)
