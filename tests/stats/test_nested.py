"""Resampling starts, then prompts: exact tiny laws, known moments, and coverage by simulation."""

import os
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.stats.bootstrap import ratio_interval, total_ratio
from specbench.stats.nested import nested_counts, several
from specbench.stats.quantile import quantile_intervals

FULL = os.environ.get("SPECBENCH_FULL") == "1"


def exact_law(groups):
    """Probability of every vector of counts, by listing all draws of groups and units."""
    members = [[u for u, g in enumerate(groups) if g == group] for group in sorted(set(groups))]
    law = Counter()
    for drawn in product(members, repeat=len(members)):
        inside = [list(product(group, repeat=len(group))) for group in drawn]
        ways = list(product(*inside))
        for way in ways:
            units = [unit for part in way for unit in part]
            counts = tuple(units.count(unit) for unit in range(len(groups)))
            law[counts] += Fraction(1, len(members) ** len(members) * len(ways))
    return law


@pytest.mark.parametrize("groups", [[0, 0, 1], [0, 1, 0, 1], [0, 1, 2], [0, 0, 0]])
def test_counts_follow_the_listed_law(groups):
    law, size = exact_law(groups), 40_000
    assert sum(law.values()) == 1
    drawn = nested_counts(groups, size, np.random.default_rng(3))
    seen = Counter(map(tuple, drawn.tolist()))
    assert set(seen) <= set(law)
    for counts, chance in law.items():
        spread = (size * chance * (1 - chance)) ** 0.5
        assert abs(seen[counts] - size * chance) <= 4.5 * spread + 1e-9, counts


def test_interval_of_a_tiny_case_is_the_listed_quantile():
    groups, values = [0, 0, 1, 1], np.array([1.0, 2.0, 4.0, 8.0])
    law = Counter()
    for counts, chance in exact_law(groups).items():
        law[float(np.dot(counts, values)) / sum(counts)] += chance
    ordered = sorted(law)
    cumulative = np.cumsum([float(law[mean]) for mean in ordered])

    def quantile(q):
        return ordered[int(np.searchsorted(cumulative, q))]

    # A level whose quantiles lie well inside the steps of the law, so that chance cannot move them.
    tail = next(
        t for t in np.arange(0.02, 0.45, 0.005) for q in [(t, 1 - t)]
        if min(abs(cumulative - q[0])) > 0.012 and min(abs(cumulative - q[1])) > 0.012
    )  # fmt: skip
    found = total_ratio(values, np.ones(4), seed=1, unit="1", level=1 - 2 * tail, groups=groups)
    assert (found.low, found.high) == (quantile(tail), quantile(1 - tail))
    assert found.number() == 3.75
    assert found.method == "bootstrap-percentile over 2 starts, then 4 units"


def test_spread_is_that_of_the_plug_in_law():
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(3), 8)
    values = rng.normal(0, 1, 24) + 3 * rng.normal(0, 1, 3)[groups]
    table = values.reshape(3, 8)
    wanted = table.mean(axis=1).var() / 3 + table.var(axis=1).mean() / (3 * 8)
    means = nested_counts(groups, 60_000, np.random.default_rng(1)) @ values / 24
    assert means.var() == pytest.approx(wanted, rel=0.03)
    assert means.mean() == pytest.approx(values.mean(), abs=0.02)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_units_come_only_in_whole_groups(groups, seed):
    sizes, kinds = Counter(groups), sorted(set(groups))
    for row in nested_counts(groups, 50, np.random.default_rng(seed)):
        drawn = [sum(row[u] for u, g in enumerate(groups) if g == kind) for kind in kinds]
        assert all(n % sizes[kind] == 0 for n, kind in zip(drawn, kinds, strict=True))
        assert sum(n // sizes[kind] for n, kind in zip(drawn, kinds, strict=True)) == len(kinds)


def test_one_group_is_one_level_to_the_last_bit():
    rng = np.random.default_rng(2)
    top, bottom = rng.lognormal(0, 0.3, 20), rng.lognormal(0, 0.1, 20)
    plain = total_ratio(top, bottom, seed=4, unit="1")
    assert total_ratio(top, bottom, seed=4, unit="1", groups=[7] * 20) == plain
    pair = ratio_interval(top, bottom, bottom, top, seed=4)
    assert ratio_interval(top, bottom, bottom, top, seed=4, groups=[0] * 20) == pair
    kept = {"seed": 1, "unit": "ms"}
    one = quantile_intervals(top, bottom, range(20), (0.5,), **kept)
    assert quantile_intervals(top, bottom, range(20), (0.5,), groups=[0] * 20, **kept) == one
    assert [several(g) for g in (None, [], [1, 1], [0, 1])] == [False, False, False, True]


def test_groups_follow_the_units_that_hold_an_observation():
    found = total_ratio([1, 9, 2, 3], [1, 0, 1, 1], seed=0, unit="1", groups=[0, 1, 0, 0])
    assert "starts" not in found.method
    with pytest.raises(ValueError, match="one group per unit"):
        total_ratio([1.0, 2.0, 3.0], [1, 1, 1], seed=0, unit="1", groups=[0, 1])


def test_where_a_draw_of_starts_holds_nothing_or_units_are_few_there_is_no_interval():
    empty = ratio_interval(
        [1.0] * 4, [0, 0, 1, 1], [1.0] * 4, [1.0] * 4, seed=0, groups=[0, 0, 1, 1]
    )
    assert empty.method == "no interval: resamples without observations"
    few = total_ratio([1.0, 2.0], [1, 1], seed=0, unit="1", groups=[0, 1])
    assert (few.low, few.method) == (None, "no interval: 2 independent units, 3 are needed")


def test_quantiles_see_the_spread_between_starts():
    rng = np.random.default_rng(8)
    groups = np.repeat(np.arange(4), 10)
    clusters = np.repeat(np.arange(40), 20)
    values = 100 + 10 * rng.normal(0, 1, 4)[groups][clusters] + rng.normal(0, 1, 800)
    kept = {"seed": 1, "unit": "ms"}
    (one,) = quantile_intervals(values, np.ones(800), clusters, (0.5,), **kept)
    (two,) = quantile_intervals(values, np.ones(800), clusters, (0.5,), groups=groups, **kept)
    assert two.high - two.low > 2 * (one.high - one.low)
    assert two.method == "bootstrap-percentile over 4 starts, then 40 units"
    assert one.number() == two.number()


def coverages(rng, runs, starts, prompts):
    """Shares of runs whose interval holds the true mean 1: one level, two levels."""
    groups = np.repeat(np.arange(starts), prompts)
    hits = []
    for _ in range(runs):
        luck = rng.normal(0, 0.1, starts)[groups]
        values = 1 + luck + rng.normal(0, 0.1, starts * prompts)
        kept = {"seed": int(rng.integers(1 << 30)), "unit": "1", "method": "percentile"}
        pair = [
            total_ratio(values, np.ones(len(values)), groups=labels, **kept)
            for labels in (None, groups)
        ]
        hits.append([found.low <= 1 <= found.high for found in pair])
    return np.mean(hits, axis=0)


def test_two_levels_cover_better_where_starts_differ():
    one, two = coverages(np.random.default_rng(21), 60, starts=4, prompts=12)
    assert one < 0.7
    assert two > one + 0.15


@pytest.mark.skipif(not FULL, reason="SPECBENCH_FULL=1")
def test_coverage_grows_with_the_starts():
    rng = np.random.default_rng(22)
    found = {starts: coverages(rng, 800, starts, 12) for starts in (2, 4, 16)}
    assert found[2][1] < found[4][1] < found[16][1]
    assert found[16][1] > 0.88
    assert all(two > one + 0.1 for one, two in found.values())
