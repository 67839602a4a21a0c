"""Times, budgets and free rows by hand, on a device of 1000 B/s and 64000 FLOP/s."""

import pytest

from specbench.roofline.bound import ARITHMETIC, MEMORY, MOST_ROWS, Placed, limit, row_budget
from specbench.roofline.cost import Load, Precision
from specbench.roofline.devices import DEVICES
from specbench.roofline.shape import Layers, Shape
from tests.roofline.shapes import BF16, dense, device, routed

ENDLESS = 10**12
BARE = Shape("bare", 10, 0, (Layers(1, 1000, None),), output_rows=0)
"""Matrices alone: 2000 bytes, 2 s on the device; one row 2000 FLOP."""


def test_parts_follow_each_other():
    model = Placed(dense(), BF16, device(peak=ENDLESS))
    # 4000 B of matrices, 2 x 101 keys x 64 B, 1000 B of output projection
    assert model.seconds(Load(1, 1, 100)) == pytest.approx((4000 + 2 * 101 * 64 + 1000) / 1000)
    assert model.products(Load(1, 1, 100)) == pytest.approx(5.0)


@pytest.mark.parametrize(("rows", "seconds"), [(1, 2), (64, 2), (65, 4), (128, 4), (129, 6)])
def test_arithmetic_goes_in_tiles(rows, seconds):
    """At 64 FLOP/B one tile takes as long as its bytes, and every other one as long again."""
    assert Placed(BARE, BF16, device()).seconds(Load(rows, 1, 0)) == pytest.approx(seconds)


def test_without_tiles_rows_count_one_by_one():
    model = Placed(BARE, BF16, device(tile=1))
    assert model.seconds(Load(96, 1, 0)) == pytest.approx(3)
    assert model.free_rows == 64


def test_twice_the_rows_are_free_within_a_tile_though_arithmetic_is_the_limit():
    model = Placed(BARE, BF16, device(peak=32000))
    assert [model.seconds(Load(rows, 1, 0)) for rows in (1, 2, 32, 64)] == [4.0] * 4
    assert model.parts(Load(1, 1, 0))[0].limit == ARITHMETIC
    assert model.free_rows == 64


@pytest.mark.parametrize(
    ("bits", "free"),
    [
        (16, 192),  # 206 rows, three whole tiles
        (8, 64),  # 103 rows
        (4, 64),  # 51 rows: less than a tile, which is free in any case
    ],
)
def test_free_rows_of_weights_that_are_only_stored_in_few_bits(bits, free):
    model = Placed(BARE, Precision("bfloat16", bits, bits, 16), DEVICES["h200"])
    assert model.free_rows == free


def test_cost_is_relative_to_one_row_of_each_request():
    model = Placed(BARE, BF16, device())
    assert model.cost(Load(32, 2, 0)) == pytest.approx(1)
    assert model.cost(Load(32, 3, 0)) == pytest.approx(2)


@pytest.mark.parametrize(
    ("batch", "slack", "budget"),
    [(1, 0.0, 64), (1, 0.99, 64), (1, 1.0, 128), (8, 0.0, 8), (64, 0.5, 1), (40, 0.0, 1)],
)
def test_budget_of_rows(batch, slack, budget):
    assert row_budget(Placed(BARE, BF16, device()), batch, 0, slack) == budget


def test_a_budget_ends_somewhere():
    model = Placed(BARE, BF16, device(peak=ENDLESS))
    assert row_budget(model, 1, 0, 0.1) == MOST_ROWS


def test_long_contexts_bring_the_budget_back():
    """Keys are read once for all rows of a request, so that batches do not use them up."""
    model = Placed(dense(), BF16, device(peak=10**6))
    budgets = [row_budget(model, 64, context, 0.1) for context in (10, 1000, 100_000)]
    assert budgets == sorted(budgets)
    assert budgets[0] < budgets[-1]


def test_like_parts_are_shown_together():
    windowed = dense(window=10).layers + dense().layers
    model = Placed(Shape("both", 10, 50, windowed, 50), BF16, device(peak=ENDLESS))
    attention = model.parts(Load(1, 1, 100))[1]
    assert attention.part.bytes == (10 + 101) * 2 * 64
    assert attention.seconds == pytest.approx(attention.part.bytes / 1000)


def test_the_limit_is_named():
    model = Placed(dense(), BF16, device(peak=ENDLESS))
    assert limit(model.parts(Load(1, 1, 0))) == f"matrices, {MEMORY}"
    assert limit(model.parts(Load(1, 1, 10_000))) == f"attention, {MEMORY}"


def test_more_rows_meet_more_experts():
    model = Placed(routed(), BF16, device(peak=ENDLESS))
    # 2000 + 1000 B of ends, 11 keys of 64 B, and 2 or 3.5 experts of 600 B
    assert model.products(Load(1, 1, 10)) == pytest.approx(3.0 + 1.2)
    assert model.products(Load(1, 2, 10)) == pytest.approx(3.0 + 2.1)
