"""Costs, budgets and what so many prompts can show."""

from __future__ import annotations

import pytest

from specbench.errors import UsageError
from specbench.measure.estimate import (
    Speed,
    assumed_speed,
    estimate,
    fit_budget,
    planned_difference,
)
from specbench.measure.plan import plan_units
from tests.measure.fakes import conditions, prompt

ARMS = ["plain", "ngram"]
SPEED = Speed("measured in warm-up", 1.0, {("plain", 1): 0.1, ("ngram", 1): 0.05})


def cost(limit):
    prompts = [prompt(f"p{i}") for i in range(limit)]
    return estimate(plan_units({"suite": prompts}, conditions(), ARMS), 10, SPEED)


def test_cost_is_the_sum_over_arms():
    found = cost(4)
    assert (found.arms, found.items, found.requests, found.tokens) == (2, 4, 8, 80)
    assert found.seconds == pytest.approx(4 * 10 * 0.15)
    assert found.basis == "measured in warm-up"


def test_what_is_done_costs_nothing():
    units = plan_units({"suite": [prompt("a"), prompt("b")]}, conditions(), ARMS)
    done = set(units[0].records())
    assert estimate(units, 10, SPEED, done).requests == 2


def test_budget_takes_as_many_prompts_as_fit():
    limit, found = fit_budget(7.6, 10, cost)
    assert limit == 5
    assert found.seconds <= 7.6
    assert fit_budget(1000, 10, cost)[0] == 10
    with pytest.raises(UsageError, match="too small: 2 prompts per suite take about"):
        fit_budget(1.0, 10, cost)
    assert fit_budget(1.0, 10, cost, refuse=False) == (2, cost(2))


def test_server_starts_cost_time_and_a_budget_leaves_each_a_prompt():
    units = plan_units({"suite": [prompt("a"), prompt("b")]}, conditions(), ARMS)
    found = estimate(units, 10, SPEED, starts=4, start_s=2.5)
    assert (found.starts, found.seconds) == (4, pytest.approx(2 * 10 * 0.15 + 10))
    assert estimate(units, 10, SPEED).starts == 0
    with pytest.raises(UsageError, match="too small: 4 prompts per suite"):
        fit_budget(5.0, 10, cost, fewest=4)
    assert fit_budget(6.1, 10, cost, fewest=4)[0] == 4


def test_assumed_speed_says_that_it_is_assumed():
    assert "not measured" in assumed_speed("cpu").basis
    assert assumed_speed("cuda:0").default < assumed_speed("cpu").default


def test_more_prompts_show_smaller_differences():
    assert planned_difference(1) > planned_difference(40) > planned_difference(400) > 0
