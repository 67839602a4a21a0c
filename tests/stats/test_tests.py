"""Paired tests, proportions, multiplicity and power."""

import math

import numpy as np
import pytest

from specbench.stats.multiplicity import holm
from specbench.stats.paired import mcnemar, permutation_mean_difference, permutation_ratio
from specbench.stats.power import detectable_difference
from specbench.stats.proportion import wilson


def test_h11_discordant_items():
    assert mcnemar(9, 18) == pytest.approx(0.122, abs=5e-4)
    assert mcnemar(0, 0) == 1.0


def test_permutation_of_a_difference_is_exact_for_few_units():
    # 3 of 3 in one direction: 2 of the 8 swaps are as extreme.
    assert permutation_mean_difference([2, 3, 4], [1, 1, 1], seed=0) == pytest.approx(2 / 8)
    assert permutation_mean_difference([1.0], [2.0], seed=0) == 1.0


def test_permutation_of_a_ratio():
    rng = np.random.default_rng(4)
    tokens = rng.integers(20, 90, 30).astype(float)
    time = tokens * rng.lognormal(0, 0.2, 30)
    same = tokens * rng.lognormal(0, 0.2, 30)
    assert permutation_ratio(time, tokens, time * 0.8, tokens, seed=0) < 1e-3
    assert permutation_ratio(time, tokens, same, tokens, seed=0) > 0.05
    assert permutation_ratio(time, tokens, same, tokens, seed=0) == permutation_ratio(
        time, tokens, same, tokens, seed=0
    )


def test_wilson_of_case_h10():
    found = wilson(63, 100)
    assert (found.low, found.high) == pytest.approx((0.532, 0.718), abs=5e-4)
    assert found.low < 0.66 < found.high
    assert not wilson(0, 0).known


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_detectable_difference_matches_the_normal_formula():
    rng = np.random.default_rng(9)
    n, spread = 400, 0.2
    ones, b = np.ones(n), np.ones(n)
    a = rng.lognormal(0, spread, n)
    se = a.std(ddof=1) / a.mean() / math.sqrt(n)
    found = detectable_difference(a, ones, b, ones, seed=1)
    assert found.number() == pytest.approx(math.expm1((1.959964 + 0.841621) * se), rel=0.05)
    assert not detectable_difference([1], [1], [1], [1], seed=1).known
