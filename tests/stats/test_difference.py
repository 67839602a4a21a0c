"""The paired difference of two ratios of totals."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.stats.difference import difference_of_ratios


def test_by_hand_and_in_the_order_of_the_arms():
    found = difference_of_ratios([4, 6], [2, 2], [3, 3], [3, 1], seed=1, unit="x")
    assert found.number() == 10 / 4 - 6 / 4
    assert (found.low, found.high) == (None, None)
    assert "3 are needed" in found.method
    turned = difference_of_ratios([3, 3], [3, 1], [4, 6], [2, 2], seed=1, unit="x")
    assert turned.number() == -found.number()


def test_what_units_have_in_common_cancels():
    chance = np.random.default_rng(3)
    tokens = chance.integers(20, 200, 40).astype(float)
    hard = chance.uniform(1.2, 4.0, 40)
    first, second = tokens / (hard + 0.1), tokens / hard
    paired = difference_of_ratios(tokens, first, tokens, second, seed=1, unit="x")
    assert paired.low < paired.number() < paired.high
    shuffled = chance.permutation(40)
    apart = difference_of_ratios(
        tokens[shuffled], first[shuffled], tokens, second, seed=1, unit="x"
    )
    assert apart.number() == pytest.approx(paired.number())
    assert apart.high - apart.low > 5 * (paired.high - paired.low)


def test_the_interval_covers_as_often_as_it_says():
    """True difference 0.5: numerators are Poisson with rates 2 and 1.5 per step of the unit."""
    chance = np.random.default_rng(7)
    inside = 0
    for seed in range(120):
        steps = chance.integers(5, 30, 30).astype(float)
        a, b = chance.poisson(2.0 * steps), chance.poisson(1.5 * steps)
        found = difference_of_ratios(a, steps, b, steps, seed=seed, unit="x")
        inside += found.low <= 0.5 <= found.high
    assert 105 <= inside <= 120  # 95 % of 120 is 114, standard deviation 2.4


def test_equal_arms_have_no_interval():
    found = difference_of_ratios([4, 6, 8], [2, 2, 3], [4, 6, 8], [2, 2, 3], seed=1, unit="x")
    assert (found.number(), found.low) == (0.0, None)
    assert "equal on all 3 units" in found.method


def test_nothing_to_compare():
    assert not difference_of_ratios([], [], [], [], seed=1, unit="x").known
    assert not difference_of_ratios([1], [0], [1], [1], seed=1, unit="x").known
    with pytest.raises(ValueError, match="one entry per unit"):
        difference_of_ratios([1], [1, 2], [1], [1], seed=1, unit="x")
