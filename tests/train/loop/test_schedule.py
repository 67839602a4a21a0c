"""Learning rates by hand."""

import math

import pytest

from specbench.train.loop.schedule import rate


def rates(total, warmup, schedule):
    return [rate(step, total, warmup, schedule) for step in range(total)]


def test_warm_up_reaches_the_full_rate_at_its_last_step():
    assert rates(10, 0.4, "constant") == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1]
    # Without a share of steps for it, the first step is at the full rate.
    assert rates(3, 0.0, "constant") == [1, 1, 1]


def test_linear():
    assert rates(6, 0.3, "linear") == pytest.approx([0.5, 1, 1, 0.75, 0.5, 0.25])


def test_cosine():
    found = rates(6, 0.3, "cosine")
    falling = [(1 + math.cos(math.pi * share)) / 2 for share in (0, 0.25, 0.5, 0.75)]
    assert found == pytest.approx([0.5, 1, *falling])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_one_step_and_steps_behind_the_end(schedule):
    assert rate(0, 1, 0.03, schedule) == 1
    assert rate(12, 10, 0.0, schedule) == (1 if schedule == "constant" else 0)
