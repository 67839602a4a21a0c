"""From records to checked columns; the number that randomises the PIT."""

import json
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
from scipy import stats

from specbench.core.request import RequestKey
from specbench.core.trace import Evidence, Finish
from specbench.fidelity.columns import columns, uniforms
from tests.fidelity.simulated import cell, part, rows, speculate
from tests.metrics.traces import trace


def evidence(n=2, **changed):
    """n tokens: target (.5, .5), the second one drafted from (.25, .75), token 1 emitted."""
    drafted = [0, *[1] * (n - 1)]
    found = {
        "position": list(range(n)),
        "drafted": drafted,
        "log_target": [float(np.log(0.5))] * n,
        "log_draft": [None, *[float(np.log(0.75))] * (n - 1)],
        "entropy": [float(np.log(2))] * n,
        "entropy_variance": [0.0] * n,
        "sum_squares": [0.5] * n,
        "pit_low": [0.0] * n,
        "pit_width": [0.5] * n,
        "overlap": [None, *[0.75] * (n - 1)],
        "draft_top_target": [None, *[0.5] * (n - 1)],
        "draft_top_hit": [None, *[1] * (n - 1)],
        "margin": [None] * n,
        "runner_up": [None] * n,
    }
    return Evidence(**found | changed)


def record(item="a", n=2, *, repeat=0, arm="mtp", finish=Finish.LENGTH, **changed):
    made = trace(item, arm=arm, temperature=0.7, repeat=repeat, ids=[1] * n, finish=finish)
    made.evidence = evidence(n, **changed)
    return made


def test_absent_is_nan_and_probability_zero_is_minus_infinity():
    found = columns([record(log_target=[None, -0.5], log_draft=[None, None])])
    assert found.drafted.tolist() == [False, True]
    assert found.log_target.tolist() == [-np.inf, -0.5]
    assert found.outside.tolist() == [True, False]
    assert np.isnan(found.log_draft[0])
    assert found.log_draft[1] == -np.inf
    assert np.isnan(found.draft_top_target[0])
    assert (found.draft_top_target[1], found.draft_top_hit[1]) == (0.5, 1.0)


def test_a_draft_without_a_recorded_law_is_unknown():
    found = columns([record(log_draft=[None, None], overlap=[None, None])])
    assert np.isnan(found.log_draft).all()


def test_columns_that_older_records_lack_are_absent():
    found = columns([record()])
    for name in ("target_top", "target_top_hit", "log_untempered", "support_margin"):
        assert np.isnan(getattr(found, name)).all()


def test_an_untempered_probability_of_zero():
    assert np.isnan(columns([record(log_untempered=[None, None])]).log_untempered).all()
    found = columns([record(log_untempered=[None, -1.0])])
    assert found.log_untempered.tolist() == [-np.inf, -1.0]


def test_an_unknown_distance_to_the_support_is_the_worst():
    outside = {"log_target": [None, None], "support_margin": [-0.01, None]}
    assert columns([record(**outside)]).support_margin.tolist() == [-0.01, -np.inf]


def test_a_failed_record_counts_with_what_it_had_and_a_greedy_one_gives_no_tokens():
    greedy = record("g", entropy=[None, None])
    assert len(columns([record("a"), record("b", finish=Finish.OOM), greedy])) == 4
    empty = columns([])
    assert (len(empty), empty.drafted.dtype, empty.uniform.dtype) == (0, bool, float)
    assert len(columns([record("a", 1)])) == 1


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"pit_low": [0.0, -0.1]}, "pit_low is outside"),
        ({"pit_width": [1.1, 0.5]}, "pit_width is outside"),
        ({"pit_low": [0.0, 0.9]}, "pit_low \\+ pit_width is above 1 at token 1: 1.4"),
        ({"log_target": [-0.5, 0.2]}, "log_target is outside"),
        ({"log_target": [-0.5, float("nan")]}, "log_target is nan"),
        ({"log_draft": [None, 0.3]}, "log_draft is outside"),
        ({"entropy": [0.6, None]}, "entropy is nan at token 1"),
        ({"entropy_variance": [-0.1, 0.0]}, "entropy_variance is outside"),
        ({"sum_squares": [None, 0.5]}, "sum_squares is nan at token 0"),
        ({"draft_top_target": [None, 1.2]}, "draft_top_target is outside"),
        ({"support_margin": [None, 0.5]}, "support_margin is outside"),
        ({"log_untempered": [0.5, -1.0]}, "log_untempered is outside"),
    ],
)
def test_impossible_values_are_named(changed, name):
    with pytest.raises(ValueError, match=name):
        columns([record(**changed)])


def test_rounding_of_float32_rows_is_no_fault():
    found = columns([record(log_target=[3e-7, -0.5], pit_low=[0.5000003, -2e-8])])
    assert len(found) == 2


def test_a_cell_holds_each_request_once_and_whole():
    with pytest.raises(ValueError, match="different requests"):
        columns([record(), record()])
    with pytest.raises(ValueError, match=r"several arms: \['eagle', 'mtp'\]"):
        columns([record("a"), record("b", arm="eagle")])
    short = record(n=3)
    short.output_ids.append(5)
    with pytest.raises(ValueError, match="covers 3 of 4 tokens"):
        columns([short])
    with pytest.raises(ValueError, match="columns differ in length"):
        replace(columns([record()]), uniform=np.zeros(3))


def test_the_uniform_number_is_the_record_s_own():
    first, second = record("a", 50), record("a", 50, repeat=1)
    alone, both = columns([first]), columns([second, first])
    # Records are ordered by request, not by when they came.
    np.testing.assert_array_equal(alone.uniform, both.uniform[:50])
    changed = [
        second,
        record("b", 50),
        record("a", 50, arm="eagle"),
        replace(first, seed=1),
        replace(first, key=RequestKey("chat", "a", 0, 0.7, 0)),
    ]
    for other in changed:
        assert not np.isclose(uniforms(other, 50), alone.uniform).any()


def test_the_uniform_number_comes_from_the_named_generator():
    name = json.dumps([0, "mtp", "code", "a", 0, 0.7, 0]).encode()
    key = int.from_bytes(blake2b(name, digest_size=16).digest(), "little")
    expected = np.random.Generator(np.random.Philox(key=key)).random(50)
    np.testing.assert_array_equal(uniforms(record(), 50), expected)
    long = uniforms(record(), 20_000)
    assert stats.kstest(long, "uniform").pvalue > 0.01


def test_the_order_of_records_only_orders_the_tokens():
    known = rows(2, 60)
    whole = cell(known, speculate, 1)
    assert len(part(whole, slice(0, 0))) == 0
    made = [record(f"i{n}", 3, pit_low=[n / 10, 0.1, 0.2]) for n in range(5)]
    forward, backward = columns(made), columns(made[::-1])
    key = np.lexsort((forward.uniform, forward.pit_low))
    other = np.lexsort((backward.uniform, backward.pit_low))
    np.testing.assert_array_equal(forward.uniform[key], backward.uniform[other])
