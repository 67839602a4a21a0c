"""Resampling by totals agrees with scipy's resampling of observations, and with enumeration."""

import itertools

import numpy as np
import pytest
from scipy import stats

from specbench.stats.bootstrap import ratio_interval
from specbench.stats.paired import permutation_mean_difference, permutation_ratio
from specbench.stats.ratios import RATIO_OF_RATIOS
from specbench.stats.resamples import Sums, all_swaps, drawn, swaps, totals


@pytest.fixture
def columns():
    rng = np.random.default_rng(3)
    tokens = rng.integers(20, 200, 25).astype(float)
    plain = tokens * rng.lognormal(-4, 0.2, 25)
    arm = tokens * rng.lognormal(-4.1, 0.5, 25)
    return plain, tokens, arm, tokens[::-1].copy()


@pytest.mark.parametrize("method", ["BCa", "percentile"])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_are_scipys_up_to_chance(columns, method, level):
    found = ratio_interval(*columns, seed=1, method=method, level=level)
    theirs = stats.bootstrap(
        columns,
        RATIO_OF_RATIOS,
        paired=True,
        vectorized=True,
        n_resamples=20000,
        confidence_level=level,
        method=method,
        random_state=np.random.default_rng(2),
    ).confidence_interval
    # Quantiles of 4,999 resamples: their own deviation is about a fortieth of the width.
    width = theirs.high - theirs.low
    assert found.low == pytest.approx(theirs.low, abs=0.06 * width)
    assert found.high == pytest.approx(theirs.high, abs=0.06 * width)


def test_p_values_are_scipys_up_to_chance(columns):
    index = np.arange(25)
    top, bottom = (np.concatenate(pair) for pair in (columns[::2], columns[1::2]))

    def log_ratio(one, other, axis=-1):
        sums = [
            column[places.astype(int)].sum(axis=axis)
            for places in (one, other)
            for column in (top, bottom)
        ]
        return np.log(sums[0] / sums[1] / (sums[2] / sums[3]))

    theirs = stats.permutation_test(
        (index, index + 25),
        log_ratio,
        permutation_type="samples",
        vectorized=True,
        n_resamples=9999,
        random_state=np.random.default_rng(4),
    ).pvalue
    assert permutation_ratio(*columns, seed=5) == pytest.approx(theirs, abs=0.02)


def test_few_units_are_enumerated():
    a, b = np.array([3.0, 1.0, 4.0, 1.5]), np.array([2.0, 2.5, 1.0, 1.0])
    seen = (a - b).sum()
    signed = [
        sum(s * d for s, d in zip(signs, a - b, strict=True))
        for signs in itertools.product((1, -1), repeat=4)
    ]
    expected = 2 * min(sum(x >= seen for x in signed), sum(x <= seen for x in signed)) / 16
    assert permutation_mean_difference(a, b, seed=0) == pytest.approx(expected)
    assert all_swaps(4, 100)
    assert len({tuple(row) for row in swaps(4, 100, 0)}) == 16
    assert not all_swaps(7, 100)
    assert len(swaps(7, 100, 0)) == 100


def test_every_resample_has_as_many_units():
    counts = drawn(7, 1000, 1)
    assert (counts.sum(axis=1) == 7).all()
    # Each unit once on average, with the binomial's variance.
    assert counts.mean(axis=0) == pytest.approx(np.ones(7), abs=0.12)
    assert counts.var(axis=0) == pytest.approx(np.full(7, 6 / 7), abs=0.15)
    assert drawn(7, 1000, 2).tolist() != counts.tolist()


def test_totals_in_blocks_are_totals(monkeypatch):
    counts = drawn(9, 50, 3)
    column = np.arange(9.0)
    monkeypatch.setattr("specbench.stats.resamples.BLOCK", 40)
    (found,) = totals(counts, [column])
    assert found.tolist() == [float(row @ column) for row in counts]


def test_totals_of_many_columns_are_those_of_each():
    counts, columns = drawn(9, 50, 3), list(np.random.default_rng(1).integers(0, 99, (4, 9)) / 1.0)
    sums = Sums(counts, [*columns, columns[0].copy()])
    for column, found in zip(columns, sums.of(columns), strict=True):
        assert found.tolist() == [float(row @ column) for row in counts]
