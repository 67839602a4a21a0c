"""Which decode steps stand for an arm, and the medians of what they took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.step_costs import StepCost
from specbench.core.trace import Finish
from specbench.metrics.step_costs import Round, TimedStep, arm_costs, step_cost, timed_steps
from tests.metrics.timed import decoded

DRAFTED = {"draft": 4, "verify": 12, "accept": 1, "refill": 2, "rest": 1}
PLAIN = {"draft": 0, "verify": 9, "rest": 1}


def test_a_step_is_a_decode_tick_with_its_phases_and_nodes():
    trace, ticks = decoded("a", [(3, 2, DRAFTED), (0, 0, PLAIN)], finish=Finish.EOS)
    drafted, idle = timed_steps([trace], ticks, k=3)
    assert drafted == TimedStep(20_000_000, 6_000_000, 12_000_000, 3.0)
    assert idle == TimedStep(10_000_000, 0, 9_000_000, 0.0)


def test_drafts_that_the_limit_cuts_are_not_whole():
    # 8 tokens behind the prefill's: with 8, 5 and 2 left a draft may have 7, 4 and 1 tokens.
    steps = [(3, 2, DRAFTED), (3, 2, DRAFTED), (1, 1, DRAFTED)]
    trace, ticks = decoded("a", steps)
    assert [step.whole for step in timed_steps([trace], ticks, k=3)] == [True, True, False]
    assert [step.whole for step in timed_steps([trace], ticks, k=4)] == [True, True, False]
    assert [step.whole for step in timed_steps([trace], ticks, k=5)] == [True, False, False]
    ended = replace(trace, finish=Finish.STOP)
    assert all(step.whole for step in timed_steps([ended], ticks, k=5))


def test_only_the_fullest_batch_counts_and_nothing_that_failed():
    steps = [(3, 1, DRAFTED)] * 3
    one, ticks = decoded("a", steps, finish=Finish.EOS)
    two, _ = decoded("b", [(1, 1, DRAFTED), (0, 0, DRAFTED)], finish=Finish.EOS)
    rows = [2, 2, 2, 1]
    together = [replace(tick, rows=n) for tick, n in zip(ticks, rows, strict=True)]
    found = timed_steps([one, two], together, k=3)
    assert [step.verified for step in found] == [2.0, 1.5]
    assert timed_steps([replace(one, finish=Finish.ERROR)], together, k=3) == []


def steps_of(*milliseconds):
    """Steps of (all, draft, verify) milliseconds."""
    return [TimedStep(a * 10**6, d * 10**6, v * 10**6, 4.0) for a, d, v in milliseconds]


def test_costs_are_medians_over_the_median_step_of_plain():
    # Medians 15, 4 and 10 over 10: one slow step of 90 ms changes nothing.
    arm = steps_of((15, 4, 10), (14, 3, 9), (90, 5, 80))
    plain = steps_of((10, 0, 9), (9, 0, 8), (50, 0, 40))
    found = arm_costs([Round(arm, plain)], 0.7, 4)
    assert (found.temperature, found.concurrency, found.t1_ms, found.t1_steps) == (0.7, 4, 10.0, 3)
    assert found.idle is None
    cost = found.drafted
    assert (cost.steps, cost.verified) == (3, 4.0)
    assert (cost.step, cost.d, cost.v) == (1.5, 0.4, 1.0)
    assert cost.o == pytest.approx(0.1)
    assert arm_costs([Round(arm, [])], 0.7, 4) is None
    assert arm_costs([], 0.7, 4) is None


def test_every_step_is_divided_by_plain_of_its_own_round():
    # From round to round the machine takes 3 times as long, and drafts come late: 15, 4 and 10
    # over 10 in each, where medians over all rounds would give 45 over 10.
    idle = [TimedStep(ms * 10**6, 0, 0, 0.0) for ms in (12, 36)]
    first = Round([*steps_of((15, 4, 10)), idle[0]], steps_of(*[(10, 0, 9)] * 6))
    second = Round([*steps_of(*[(45, 12, 30)] * 3), idle[1]], steps_of(*[(30, 0, 27)] * 3))
    unpaired = Round(steps_of(*[(500, 100, 300)] * 9), [])
    found = arm_costs([first, second, unpaired], 0.0, 1)
    assert (found.t1_ms, found.t1_steps) == (10.0, 9)
    cost = found.drafted
    assert (cost.steps, cost.step, cost.d, cost.v) == (4, 1.5, 0.4, 1.0)
    assert (found.idle.steps, found.idle.step) == (2, 1.2)


def test_without_spans_a_step_is_known_as_a_whole():
    trace, ticks = decoded("a", [(3, 2, DRAFTED)], finish=Finish.EOS)
    bare = timed_steps([trace], [replace(tick, spans=()) for tick in ticks], k=3)
    assert step_cost([(bare[0], 10e6)]) == StepCost(1, 3.0, 2.0, None, None, None)
    assert step_cost([]) is None
