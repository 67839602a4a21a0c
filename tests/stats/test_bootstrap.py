import warnings

import numpy as np
import pytest

from specbench.stats.bootstrap import ratio_interval, total_ratio


def test_ratio_of_totals_with_its_interval():
    rng = np.random.default_rng(1)
    tokens = rng.integers(20, 200, 40).astype(float)
    plain, arm = tokens * 0.020, tokens * 0.011 * rng.lognormal(0, 0.1, 40)
    found = ratio_interval(plain, tokens, arm, tokens, seed=3, level=0.9)
    assert found.number() == pytest.approx(plain.sum() / arm.sum())
    assert found.low < found.number() < found.high
    assert (found.n, found.level, found.unit) == (40, 0.9, "x")
    assert found.method == "bootstrap-t over 40 units"
    assert ratio_interval(plain, tokens, arm, tokens, seed=3, level=0.9) == found


def test_pairing_removes_what_both_arms_share():
    rng = np.random.default_rng(2)
    difficulty = rng.lognormal(0, 1, 30)
    tokens = np.ones(30)
    arm = difficulty * 0.5 * rng.lognormal(0, 0.02, 30)
    paired = ratio_interval(difficulty, tokens, arm, tokens, seed=0)
    broken = ratio_interval(difficulty, tokens, rng.permutation(arm), tokens, seed=0)
    assert paired.high - paired.low < 0.2 * (broken.high - broken.low)


def test_fewer_than_three_units_give_a_reason_and_no_interval():
    found = ratio_interval([2.0, 2.0], [1, 1], [1.0, 1.0], [1, 1], seed=0)
    assert (found.number(), found.low, found.n) == (2.0, None, 2)
    assert found.method == "no interval: 2 independent units, 3 are needed"


def test_bca_falls_back_and_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ratio_interval([2.0] * 5, [1.0] * 5, [1.0] * 5, [1.0] * 5, seed=0)
    assert (found.low, found.number(), found.high) == (2.0, 2.0, 2.0)
    assert found.method == "bootstrap-percentile over 5 units (BCa undefined)"
    asked = ratio_interval([2.0] * 5, [1.0] * 5, [1.0] * 5, [1.0] * 5, seed=0, method="percentile")
    assert asked.method == "bootstrap-percentile over 5 units"


def test_nothing_to_divide_by():
    assert not total_ratio([1.0, 2.0], [0, 0], seed=0, unit="1", empty="no draft").known
    assert total_ratio([1.0], [0.0], seed=0, unit="1", empty="no draft").value.reason == "no draft"
    assert not ratio_interval([], [], [], [], seed=0).known
    assert not ratio_interval([1.0], [1], [0.0], [1], seed=0).known
    with pytest.raises(ValueError, match="one entry per unit"):
        total_ratio([1.0, 2.0], [1.0], seed=0, unit="1")


def test_units_without_an_observation_are_left_out():
    found = total_ratio([1, 2, 0, 3], [2, 2, 0, 4], seed=0, unit="1")
    assert (found.number(), found.n) == (0.75, 3)


def test_resamples_without_observation_give_no_interval():
    found = ratio_interval([1.0] * 4, [0, 0, 0, 1], [1.0] * 4, [1.0] * 4, seed=0)
    assert found.known
    assert found.method == "no interval: resamples without observations"


def test_h11_two_hundred_rounds_cannot_tell_2_0_from_2_1():
    rng = np.random.default_rng(5)
    rounds = np.full(20, 10.0)
    a, b = (rng.normal(mean, 1.2, (20, 10)).sum(axis=1) for mean in (2.0, 2.1))
    found = ratio_interval(b, rounds, a, rounds, seed=0)
    assert found.low < 1.0 < found.high
