"""Interleaving: balanced, seeded, complete."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from specbench.core.request import Sampling
from specbench.measure.plan import balanced_orders, block_sizes, plan_units
from tests.measure.fakes import conditions, prompt

ARMS = ["plain", "ngram", "skip"]


@pytest.mark.parametrize("arms", [2, 3, 5])
def test_every_arm_holds_every_place_equally_often(arms):
    names = [f"arm{i}" for i in range(arms)]
    orders = balanced_orders(names, 4 * arms, random.Random(1))
    places = Counter((name, place) for order in orders for place, name in enumerate(order))
    assert set(places.values()) == {4}
    assert len(places) == arms * arms


def test_orders_depend_on_the_seed_and_on_nothing_else():
    prompts = [prompt(f"p{i}") for i in range(20)]

    def orders(seed):
        units = plan_units({"suite": prompts}, conditions(seed=seed), ARMS)
        return [unit.orders for unit in units]

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


@pytest.mark.parametrize(
    ("items", "concurrency", "sizes"),
    [(3, 1, [1, 1, 1]), (10, 4, [5, 5]), (15, 8, [15]), (17, 8, [9, 8]), (3, 8, [3])],
)
def test_blocks_hold_c_to_2c_prompts(items, concurrency, sizes):
    assert block_sizes(items, concurrency) == sizes


def test_a_plan_holds_each_record_once():
    settings = conditions(samplings=(Sampling(0.0), Sampling(0.7)), repeats=2, concurrency=(1, 2))
    prompts = [prompt("a", turns=2), prompt("b"), prompt("c")]
    units = plan_units({"x": prompts, "y": prompts[:2]}, settings, ARMS)
    records = [record for unit in units for record in unit.records()]
    assert len(records) == len(set(records)) == (4 + 3) * 2 * 2 * 2 * 3
    assert {unit.kind for unit in units if unit.concurrency == 1} == {"item"}
    assert {unit.kind for unit in units if unit.concurrency == 2} == {"block"}


def test_open_arrivals_are_one_stream_per_cell():
    prompts = [prompt("a", turns=2), *(prompt(f"p{i}") for i in range(9))]
    settings = conditions(concurrency=(1, 2), open_arrivals=True, repeats=2)
    units = plan_units({"x": prompts, "y": prompts[:3]}, settings, ARMS)
    assert [(unit.name, unit.kind, len(unit.prompts)) for unit in units[:4]] == [
        ("x:T0.0:r0:c1:block0", "block", 10),
        ("y:T0.0:r0:c1:block0", "block", 3),
        ("x:T0.0:r1:c1:block0", "block", 10),
        ("y:T0.0:r1:c1:block0", "block", 3),
    ]
    assert len(units) == 2 * 2 * 2
    closed = plan_units({"x": prompts[:2]}, conditions(), ARMS)
    assert [unit.name for unit in closed] == ["x:T0.0:r0:c1:a", "x:T0.0:r0:c1:p0"]


def test_cells_take_turns_so_that_an_interrupted_run_covers_all():
    settings = conditions(samplings=(Sampling(0.0), Sampling(0.7)))
    prompts = [prompt(f"p{i}") for i in range(3)]
    units = plan_units({"x": prompts, "y": prompts}, settings, ARMS)
    cells = [(unit.suite, unit.sampling.temperature) for unit in units[:4]]
    assert cells == [("x", 0.0), ("x", 0.7), ("y", 0.0), ("y", 0.7)]
