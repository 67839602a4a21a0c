"""Best K and speed-up: the tables of ALGORITHMS 2.1, where a verification costs one forward."""

import pytest

from specbench.roofline.bound import Placed
from specbench.roofline.cost import Load
from specbench.roofline.shape import Layers, Shape
from specbench.roofline.speculation import (
    Step,
    best,
    break_even,
    by_model,
    share_of,
    steps,
)
from specbench.stats.independent import expected_length, iid_root
from tests.roofline.shapes import BF16, device

TARGET = Placed(Shape("bare", 10, 0, (Layers(1, 1000, None),), 0), BF16, device(peak=10**12))


@pytest.mark.parametrize(
    ("a", "lengths"),
    [
        (0.5, {1: 1.5, 2: 1.75, 3: 1.875, 4: 1.9375, 5: 1.9688}),
        (0.7, {1: 1.7, 2: 2.19, 3: 2.533, 4: 2.773, 5: 2.941}),
        (0.8, {1: 1.8, 2: 2.44, 3: 2.952, 4: 3.362, 5: 3.689, 7: 4.161, 10: 4.571}),
        (0.9, {1: 1.9, 2: 2.71, 3: 3.439, 4: 4.095, 5: 4.686, 7: 5.695, 10: 6.862}),
    ],
)
def test_tokens_per_step(a, lengths):
    for k, length in lengths.items():
        assert expected_length(a, k) == pytest.approx(length, abs=5.1e-4)


BEST = [
    *[(0.05, 0.6, 4, 1.92), (0.05, 0.7, 6, 2.35), (0.05, 0.8, 8, 3.09), (0.05, 0.9, 13, 4.67)],
    *[(0.1, 0.6, 3, 1.67), (0.1, 0.7, 4, 1.98), (0.1, 0.8, 6, 2.47), (0.1, 0.9, 10, 3.43)],
    *[(0.2, 0.7, 3, 1.58), (0.2, 0.8, 4, 1.87), (0.2, 0.9, 7, 2.37)],
    *[(0.3, 0.8, 3, 1.55), (0.3, 0.9, 5, 1.87)],
]


@pytest.mark.parametrize(("c", "a", "k", "speedup"), BEST)
def test_best_k(c, a, k, speedup):
    possible = steps(TARGET, share_of(TARGET, c), batch=1, context=0, longest=32)
    assert all(step.v == pytest.approx(1) for step in possible)
    found = best(possible, a)
    assert found.k == k
    assert found.speedup == pytest.approx(speedup, abs=5.1e-3)


@pytest.mark.parametrize("c", [0.05, 0.3, 0.9])
def test_drafting_pays_above_its_cost(c):
    """ALGORITHMS 2.1: a gain is possible if and only if a > c, and at K = 1 already."""
    possible = steps(TARGET, share_of(TARGET, c), 1, 0, 16)
    assert break_even(possible) == pytest.approx(c)
    assert best(possible, c - 0.01).k == 0
    assert best(possible, c + 0.01).speedup > 1


def test_a_draft_that_costs_more_than_it_can_bring_never_pays():
    assert Step(2, d=1.5, v=1.6).break_even is None
    assert break_even([Step(1, 1.0, 1.1), Step(2, 2.0, 1.1)]) is None
    assert best([Step(1, 1.0, 1.1)], 1.0).k == 0


def test_break_even_of_a_step_is_where_tokens_cover_the_cost():
    # 1 + a + a^2 = 1.75 at a = 1/2
    assert Step(2, 0.5, 1.25).break_even == pytest.approx(0.5)
    assert Step(2, 0.0, 1.0).break_even == 0
    assert iid_root(0.75, 2) == pytest.approx(0.5)


def test_a_draft_model_runs_once_per_token_and_medusa_once_for_all():
    layer = (Layers(1, 100, None),)
    small = Placed(Shape("small", 10, 0, layer, 0), BF16, TARGET.device)
    heads = Placed(Shape("heads", 10, 0, layer, 0, answers=4), BF16, TARGET.device)
    once = small.seconds(Load(1, 1, 0))
    assert once == pytest.approx(0.2)  # 200 B at 1000 B/s
    assert [by_model(small)(k, 1, 0) for k in (1, 3)] == [pytest.approx(0.2), pytest.approx(0.6)]
    assert [by_model(heads)(k, 1, 0) for k in (1, 4)] == [pytest.approx(0.2)] * 2


def test_verifying_costs_what_the_rows_cost():
    limited = Placed(TARGET.shape, BF16, device())  # one tile of 64 rows is free
    found = steps(limited, share_of(limited, 0.0), batch=32, context=0, longest=3)
    assert [step.v for step in found] == [pytest.approx(1), pytest.approx(2), pytest.approx(2)]
    assert best(found, 1.0).speedup == pytest.approx(2)
    assert best(found, 1.0).k == 1
