"""The price of a rule: means over positions, intervals over prompts, and what has no number."""

from __future__ import annotations

import math
from dataclasses import fields
from itertools import product

import pytest

from specbench.core.quantity import Absence
from specbench.core.trace import Evidence, Finish
from specbench.fidelity.price import free, price, unknown
from tests.metrics.traces import trace


def priced(item, tv, *, kl=None, rule_entropy=None, entropy=None, **changes):
    """A record whose first token is the prefill's, so that the rule emitted the others."""
    count = len(tv) + 1
    columns = {f.name: [None] * count for f in fields(Evidence)}
    given = {"rule_tv": tv, "rule_kl": kl, "rule_entropy": rule_entropy, "entropy": entropy}
    columns |= {name: [None, *values] for name, values in given.items() if values is not None}
    columns |= {"position": list(range(count)), "drafted": [0] + [1] * len(tv)}
    found = trace(item, temperature=0.7, arrivals=[(100, count)], **changes)
    found.evidence = Evidence(**columns)
    return found


def exact(item, tv, kl, rule_entropy, entropy, **changes):
    return priced(item, tv, kl=kl, rule_entropy=rule_entropy, entropy=entropy, **changes)


RECORDS = [
    exact("a", [0.1, 0.3], [0.02, 0.08], [1.0, 0.5], [1.2, 1.0]),
    exact("b", [0.5], [0.4], [0.25], [1.0]),
    exact("c", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [2.0, 2.0, 2.0]),
]


def test_means_are_over_positions_and_the_worst_is_of_one():
    found = price(RECORDS, seed=1)
    assert found.exact
    # Six positions: a prompt with more of them weighs more.
    assert found.tv.value == pytest.approx(0.9 / 6)
    assert found.kl.value == pytest.approx(0.5 / 6)
    assert (found.tv_worst.value, found.kl_worst.value) == (0.5, 0.4)
    assert (found.tv_worst.n, found.kl_worst.n) == (6, 6)
    # Sharper by 0.2, 0.5 and 0.75 nats at three of six positions.
    assert found.entropy_shift.value == pytest.approx(-1.45 / 6)
    units = (found.tv.unit, found.tv_worst.unit, found.kl.unit, found.entropy_shift.unit)
    assert units == ("1", "1", "nats", "nats")


def test_the_interval_is_over_prompts():
    sums, counts = (0.4, 0.5, 0.0), (2, 1, 3)
    resampled = [
        sum(sums[i] for i in chosen) / sum(counts[i] for i in chosen)
        for chosen in product(range(3), repeat=3)
    ]
    found = price(RECORDS, seed=1).tv
    assert found.n == 3
    assert found.level == 0.95
    assert "over 3 units" in found.method
    assert min(resampled) - 1e-12 <= found.low < found.value < found.high <= max(resampled) + 1e-12


def test_turns_and_repeats_of_a_prompt_are_one_unit():
    again = exact("a", [0.6], [0.1], [1.0], [1.0], repeat=1)
    later = exact("b", [0.6], [0.1], [1.0], [1.0], turn=1)
    found = price([*RECORDS, again, later], seed=1).tv
    assert (found.n, found.value) == (3, pytest.approx(2.1 / 8))
    # Two units are too few to resample.
    few = price(RECORDS[:2], seed=1).tv
    assert (few.low, few.high, few.n) == (None, None, 2)


def test_failed_requests_do_not_count():
    failed = exact("d", [0.9], [0.9], [0.0], [3.0], finish=Finish.OOM)
    assert price([*RECORDS, failed], seed=1) == price(RECORDS, seed=1)


def test_leaving_the_support_makes_the_divergence_infinite_and_nothing_else():
    leaving = exact("d", [0.2, 0.2], [math.inf, 0.1], [1.0, 1.0], [1.0, 1.0])
    found = price([*RECORDS, leaving], seed=1)
    assert found.exact
    assert found.tv.value == pytest.approx(1.3 / 8)
    assert found.tv_worst.value == 0.5
    assert found.entropy_shift.value == pytest.approx(-1.45 / 8)
    for quantity in (found.kl, found.kl_worst):
        assert not quantity.known
        assert quantity.unit == "nats"
        assert quantity.value.reason == (
            "infinite: the rule leaves the target's support at 1 of 8 positions"
        )


def test_an_estimate_has_a_mean_alone():
    steps = [priced(name, [0.25, None, None, -0.05]) for name in "abc"]
    found = price(steps, seed=1)
    assert not found.exact
    # An unbiased estimate of something near 0 may be negative; positions without one are left out.
    assert found.tv.value == pytest.approx(0.1)
    assert found.tv.n == 3
    for quantity in (found.tv_worst, found.kl, found.kl_worst, found.entropy_shift):
        assert quantity.value.reason == "the rule has no law of single tokens"


def test_one_estimated_position_makes_the_whole_an_estimate():
    found = price([*RECORDS, priced("d", [0.3])], seed=1)
    assert not found.exact
    assert found.tv.value == pytest.approx(1.2 / 7)
    assert not found.tv_worst.known
    assert not found.kl.known


@pytest.mark.parametrize("records", [[], [trace("a", temperature=0.7)], [priced("a", [None])]])
def test_no_recorded_law_is_no_price(records):
    found = price(records, seed=1)
    for quantity in found.quantities().values():
        assert quantity.value.absence is Absence.NOT_AVAILABLE
        assert quantity.value.reason == "the rule's output law was not recorded"


def test_a_lossless_rule_is_free_by_proof_and_an_unknown_price_is_not_zero():
    nothing_paid = free().quantities()
    assert {name: (q.value, q.method, q.n) for name, q in nothing_paid.items()} == dict.fromkeys(
        ("tv", "tv_worst", "kl", "kl_worst", "entropy_shift"), (0.0, "proven", 0)
    )
    reasons = {str(q.value) for q in unknown("no reason").quantities().values()}
    assert reasons == {"not available: no reason"}
