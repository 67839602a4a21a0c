"""The course of a sweep on made-up runs: true speeds are known, and so is every decision."""

from __future__ import annotations

import pytest

from specbench.core.quantity import Quantity
from specbench.results.sweep.candidates import WITHOUT, named
from specbench.results.sweep.course import Setting, course, first_limit, ladder, plausible
from specbench.results.sweep.halving import Ratio

CANDIDATES = tuple(named("a", k) for k in (1, 2, 4, 8))
LADDER = (4, 8, 16)


class Run:
    """A run in which every ratio is known to a relative width that prompts halve."""

    def __init__(self, speeds, width=0.0, refused=(), predicted=None):
        self.speeds = {"plain": 1.0, **speeds}
        self.width = width
        self.words = dict(refused)
        self.guess = predicted or {}

    def speed(self, name):
        return self.against(name, "plain").times

    def against(self, name, other):
        ratio = self.speeds[name] / self.speeds[other]
        ends = (ratio * (1 - self.width), ratio * (1 + self.width))
        return Ratio(Quantity(ratio, "x", *ends, 0.95, 8), 0.01)

    def refused(self, name):
        return self.words.get(name, "")

    def predicted(self, candidates):
        return self.guess

    def leading(self, names):
        return []


SPEEDS = {"a-k1": 1.2, "a-k2": 1.5, "a-k4": 1.4, "a-k8": 0.9}


def played(setting, run):
    """Run the sweep to its end; returns the steps in order and the course then."""
    steps, order = {}, []
    while (found := course(setting, steps)).next is not None:
        order.append(found.next)
        steps[found.next.folder] = run(found.next)
    return order, found


def test_prompts_double_until_one_is_left_and_that_one_is_confirmed():
    setting = Setting(CANDIDATES, (), LADDER, 30)
    order, found = played(setting, lambda step: Run(SPEEDS, 0.4 / (step.limit / 4)))
    assert [(step.folder, step.limit) for step in order] == [
        ("rung-1", 4),
        ("rung-2", 8),
        ("rung-3", 16),
        ("confirm", 30),
    ]
    names = [[one.name for one in step.candidates] for step in order]
    # Of five that race three go on, of three two; at a width of 10 % the 7 % are not sure, and the
    # prompts are used up.
    assert names[0] == ["a-k1", "a-k2", "a-k4", "a-k8"]
    assert names[1] == ["a-k2", "a-k4", "a-k1"]
    assert names[2] == ["a-k2", "a-k4"]
    assert names[3] == ["a-k2", "a-k4"]
    assert found.leader == "a-k2"
    assert found.ending


def test_exact_speeds_are_decided_in_the_first_rung():
    order, found = played(Setting(CANDIDATES, (), LADDER), lambda step: Run(SPEEDS))
    assert [step.folder for step in order] == ["rung-1", "confirm"]
    assert (found.best.name, found.runner.name) == ("a-k2", "a-k4")


def test_where_plain_leads_the_best_k_is_confirmed_beside_it():
    slow = {name: 0.5 + 0.1 * place for place, name in enumerate(SPEEDS)}
    order, found = played(Setting(CANDIDATES, (), LADDER), lambda step: Run(slow))
    assert found.leader == "plain"
    assert (found.best.name, found.runner.name) == ("a-k8", "a-k4")
    assert [one.name for one in order[-1].candidates] == ["a-k8", "a-k4"]


def test_one_who_went_further_comes_before_one_who_was_faster_on_fewer_prompts():
    by_rung = {"rung-1": SPEEDS | {"a-k1": 1.45}, "rung-2": SPEEDS, "rung-3": SPEEDS}
    setting = Setting(CANDIDATES[:3], (), LADDER)
    _, found = played(setting, lambda step: Run(by_rung.get(step.folder, SPEEDS), 0.3))
    assert found.decisions[0].kept[:3] == ("a-k2", "a-k1")
    assert found.decisions[0].dropped.keys() == {"a-k4", "plain"}
    assert found.runner.name == "a-k1"


def test_the_scout_decides_what_is_measured():
    setting = Setting(CANDIDATES, (CANDIDATES[0], CANDIDATES[3]), LADDER)
    guess = {"a-k1": 1.21, "a-k2": 1.6, "a-k4": 1.22, "a-k8": 1.19}
    order, found = played(setting, lambda step: Run(SPEEDS, predicted=guess))
    assert [step.folder for step in order] == ["scout", "rung-1", "confirm"]
    # 75 % of 1.6 is 1.2.
    assert [one.name for one in order[1].candidates] == ["a-k1", "a-k2", "a-k4"]
    assert found.left_out == {"a-k8": "predicted 1.19x plain, the best 1.60x"}


def test_no_prediction_leaves_everybody_in():
    assert plausible(CANDIDATES, {}) == ([*CANDIDATES], {})
    kept, _ = plausible(CANDIDATES, {"a-k1": 1.0, "a-k2": 2.0})
    assert [one.name for one in kept] == ["a-k2", "a-k4", "a-k8"]


def test_time_that_is_over_ends_the_race_but_not_the_confirmation():
    setting = Setting(CANDIDATES, (), LADDER)
    steps = {"rung-1": Run(SPEEDS, 0.4)}
    found = course(setting, steps, ended="no time", confirm=5)
    assert (found.next.folder, found.next.limit) == ("confirm", 5)
    assert found.ending == "no time"
    done = course(setting, {**steps, "confirm": Run(SPEEDS)}, ended="no time", confirm=5)
    assert done.next is None
    assert done.best.name == "a-k2"


def test_who_may_not_be_recommended_is_not_confirmed():
    refused = {"a-k2": "its output is not the target's", "a-k4": "2 of 4 requests failed"}
    _, found = played(Setting(CANDIDATES, (), LADDER), lambda step: Run(SPEEDS, 0, refused))
    assert (found.best.name, found.runner.name) == ("a-k1", "a-k8")
    everybody = dict.fromkeys([*SPEEDS, "plain"], "no")
    order, found = played(Setting(CANDIDATES, (), LADDER), lambda step: Run(SPEEDS, 0, everybody))
    assert [step.folder for step in order] == ["rung-1"]
    assert found.best is None


@pytest.mark.parametrize(
    ("first", "available", "rungs"),
    [
        (4, 16, (4, 8, 16)),
        (5, 12, (5, 10, 12)),
        (20, 12, (12,)),
        (12, 12, (12,)),
        (1, 3, (1, 2, 3)),
    ],
)
def test_rungs_double_and_end_with_all_prompts(first, available, rungs):
    assert ladder(first, available) == rungs


@pytest.mark.parametrize(
    ("fewest", "load", "sizes", "limit"),
    [
        (8, 1, [30], 8),
        (2, 1, [30], 3),  # three prompts are three units
        (8, 4, [30], 12),  # three blocks of 4
        (8, 4, [30, 30], 8),  # two blocks of each suite
        (8, 16, [30], 30),  # one block: as many as there are
        (8, 4, [6, 30], 8),  # one block of the small suite, two of the other
    ],
)
def test_the_first_rung_has_three_units_where_it_can(fewest, load, sizes, limit):
    assert first_limit(fewest, load, sizes, 3) == limit


def test_plain_is_a_candidate_without_a_draft():
    assert (WITHOUT.plain, WITHOUT.size) == (True, (0, 0))
    assert named("eagle", 4, 16).name == "eagle-k4-n16"
