"""Shorter chains predicted from the longest, held against sums by hand and the law of one alpha."""

from __future__ import annotations

import pytest

from specbench.metrics.profile import profile
from specbench.metrics.shorter import shorter_lengths, shorter_speedups, step_at
from tests.metrics.traces import SEED, trace


def chain(accepted, k, item="a"):
    return trace(item, verified=[k] * len(accepted), accepted=accepted)


def test_lengths_are_shares_of_steps_that_accepted_as_much():
    # Of four steps three accept 1 or more, two 2 or more, one 3 and one 4.
    found = shorter_lengths([chain([4, 2, 0, 1], 4)], [1, 2, 3, 4])
    assert found == pytest.approx({1: 1.75, 2: 2.25, 3: 2.5, 4: 2.75})


def test_one_alpha_gives_the_closed_form():
    # 16 steps as alpha = 1/2 has them: 8, 4, 2 of them stop at 0, 1, 2 and 2 accept all three.
    steps = [0] * 8 + [1] * 4 + [2] * 2 + [3] * 2
    found = shorter_lengths([chain(steps, 3)], [1, 2, 3])
    assert found == pytest.approx({k: (1 - 0.5 ** (k + 1)) / 0.5 for k in (1, 2, 3)})


def test_costs_lie_on_the_line_between_known_ones():
    known = {1: 1.2, 4: 1.8, 8: 3.8}
    assert [step_at(k, known) for k in (1, 2, 3, 4, 6, 8)] == pytest.approx(
        [1.2, 1.4, 1.6, 1.8, 2.8, 3.8]
    )


def test_speedups_are_length_over_cost_steps_without_a_draft_apart():
    whole = shorter_speedups([chain([4, 2, 0, 1], 4)], [2], {1: 1.2, 4: 1.8}, 1.0, seed=SEED)
    assert whole == pytest.approx({2: 2.25 / 1.4})
    # Half of the steps draft nothing: two of four accept, and idle steps cost 1.1.
    half = trace(verified=[4, 0, 4, 0], accepted=[4, 0, 1, 0])
    found = shorter_speedups([half], [2], {1: 1.2, 4: 1.8}, 1.1, seed=SEED)
    assert found == pytest.approx({2: (1 + 0.5 + 0.25) / (0.5 * 1.4 + 0.5 * 1.1)})


def test_nothing_drafted_predicts_nothing():
    plain = trace(verified=[0, 0], accepted=[0, 0])
    assert shorter_speedups([plain], [2], {1: 1.2, 4: 1.8}, 1.0, seed=SEED) == {}


def test_a_profile_has_counts_and_rates_by_position():
    traces = [chain([2, 0], 2, "a"), chain([1, 1], 2, "b"), chain([2, 2], 2, "c")]
    first, second = profile(traces, seed=SEED)
    assert [first[name].number() for name in ("judged", "reached", "accepted")] == [6, 6, 5]
    assert [second[name].number() for name in ("judged", "reached", "accepted")] == [6, 5, 3]
    assert first["cumulative"].number() == first["conditional"].number() == pytest.approx(5 / 6)
    assert second["cumulative"].number() == pytest.approx(3 / 6)
    assert second["conditional"].number() == pytest.approx(3 / 5)
    assert second["cumulative"].low < 0.5 < second["cumulative"].high
    assert profile([trace(verified=[0], accepted=[0])], seed=SEED) == []
