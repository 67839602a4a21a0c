import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.stats.quantile import quantile_intervals, weighted_quantile


def test_a_quantile_is_an_observed_value():
    assert weighted_quantile([4, 1, 3, 2], [1] * 4, 0.5) == 2
    assert weighted_quantile([1, 2, 3], [1, 1, 8], 0.5) == 3
    assert weighted_quantile(range(1, 31), [1] * 30, 0.9) == 27
    assert weighted_quantile(range(1, 101), [1] * 100, 0.99) == 99
    assert weighted_quantile([5], [2], 0.99) == 5


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 5)), min_size=1, max_size=30),
    st.sampled_from([0.5, 0.9, 0.99, 1.0]),
)
def test_weights_count_like_copies(rows, q):
    values, weights = zip(*rows, strict=True)
    copies = np.repeat(values, weights)
    wanted = np.quantile(copies, q, method="inverted_cdf")
    assert weighted_quantile(values, weights, q) == wanted


def test_intervals_resample_clusters():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(25), 40)
    values = rng.normal(100, 1, 1000) + 10 * rng.normal(0, 1, 25)[clusters]
    kwargs = {"seed": 1, "unit": "ms"}
    by_cluster, tail = quantile_intervals(values, np.ones(1000), clusters, (0.5, 0.999), **kwargs)
    by_value = quantile_intervals(values, np.ones(1000), np.arange(1000), (0.5,), **kwargs)[0]
    assert by_cluster.low < by_cluster.number() < by_cluster.high
    assert by_cluster.n == 25
    assert by_cluster.high - by_cluster.low > 2 * (by_value.high - by_value.low)
    assert (tail.low, tail.known) == (None, True)
    assert "tail" in tail.method


@pytest.mark.parametrize(("values", "known"), [([], False), ([1.0, 2.0], True)])
def test_too_few_units_give_no_interval(values, known):
    found = quantile_intervals(
        values, [1.0] * len(values), list(range(len(values))), (0.5,), seed=0, unit="ms"
    )[0]
    assert (found.known, found.low) == (known, None)
