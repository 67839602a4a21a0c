"""The law of a count of independent events."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from specbench.fidelity.counts import count_law, tails


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_every_subset_enumerated(n):
    p = np.random.default_rng(n).random(n)
    expected = np.zeros(n + 1)
    for happened in product((0, 1), repeat=n):
        expected[sum(happened)] += np.prod(
            [q if h else 1 - q for h, q in zip(happened, p, strict=True)]
        )
    np.testing.assert_allclose(count_law(p), expected, atol=1e-14)


def test_equal_events_are_binomial():
    found = count_law(np.full(3000, 0.01))
    np.testing.assert_allclose(found, stats.binom.pmf(np.arange(3001), 3000, 0.01), atol=1e-13)
    at_most, at_least = tails(found)
    counts = np.arange(3001)
    np.testing.assert_allclose(at_most, stats.binom.cdf(counts, 3000, 0.01), atol=1e-12)
    np.testing.assert_allclose(at_least, stats.binom.sf(counts - 1, 3000, 0.01), atol=1e-12)


def test_certain_and_impossible_events():
    assert count_law(np.array([1.0, 0.0, 1.0])).tolist() == pytest.approx([0, 0, 1, 0])
    assert count_law(np.empty(0)).tolist() == [1.0]
