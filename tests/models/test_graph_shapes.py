"""Which captured shape a forward takes, and what it is padded to; all by hand."""

import pytest
import torch

from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.buckets import (
    FULL,
    LATE,
    MIXED,
    PROMPT,
    Bucket,
    bucket_of,
    rounded,
    seats,
    smallest,
    verified,
    why_eager,
)
from specbench.models.graphs.padding import idle, padded
from specbench.models.kv_pool import KVPool
from tests.models.graph_batches import CAPACITY, CPU, PROMPTS, TREE, batch


def test_powers_of_two_by_hand():
    assert [rounded(n) for n in (1, 2, 3, 4, 5, 8, 9)] == [1, 2, 4, 4, 8, 8, 16]


def test_the_shape_of_a_batch_by_hand():
    ragged = [(0, 5, [1, 2, 3], False), (1, 2, [4], False)]
    assert bucket_of(batch(ragged), 4) == Bucket(4, 3, 3, False, 3)
    assert bucket_of(batch(ragged, "last"), 4) == Bucket(4, 3, 3, False, 1)
    assert bucket_of(batch(ragged, "none"), 2) == Bucket(2, 3, 3, False, 0)
    # One tree of 4 rows beside a chain of 5: the tree's tail grows by its padding row.
    mixed = [(0, 5, [1, 2, 3, 4], True), (1, 2, [4, 5, 6, 7, 8], False)]
    assert bucket_of(batch(mixed), 2) == Bucket(2, 5, 8, True, 5)


def test_a_forward_takes_the_smallest_capture_that_holds_it():
    def chain(requests, width, rows=None):
        return Bucket(requests, width, width, False, width if rows is None else rows)

    known = [chain(8, 5), chain(4, 5), chain(8, 2), chain(8, 2, 1), Bucket(4, 5, 8, True, 5)]
    assert smallest(known, chain(3, 1), 99) == chain(8, 2)
    assert smallest(known, chain(3, 3), 99) == chain(4, 5)
    assert smallest(known, chain(5, 3), 99) == chain(8, 5)
    assert smallest(known, chain(5, 2, 1), 99) == chain(8, 2, 1)
    assert smallest(known, chain(9, 1), 99) == LATE
    assert smallest(known, chain(4, 6), 99) == LATE
    assert smallest(known, chain(4, 5, 0), 99) == LATE
    assert smallest(known, Bucket(4, 5, 16, True, 5), 99) == LATE
    assert smallest(known, Bucket(4, 4, 8, True, 4), 99) == known[-1]


def test_a_forward_takes_none_whose_padding_has_no_room_by_hand():
    narrow, wide = Bucket(8, 2, 2, False, 2), Bucket(2, 5, 5, False, 5)
    assert smallest([narrow, wide], Bucket(2, 1, 1, False, 1), 5) == wide
    assert smallest([narrow, wide], Bucket(2, 1, 1, False, 1), 4) == narrow
    assert smallest([narrow, wide], Bucket(2, 1, 1, False, 1), 1) == FULL


def test_seats_by_hand():
    assert [seats(n, 6) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 4, 6, 6]
    pool = KVPool(6, CAPACITY, torch.float32, CPU, scratch=True)
    # torch's attention reads slabs where they lie: the last one that is used counts.
    assert SDPA.seats(pool, [0]) == (1, [0])
    assert SDPA.seats(pool, [2, 0]) == (4, [2, 0])
    assert SDPA.seats(pool, [5]) == (6, [5])


def test_what_an_arm_verifies_by_hand():
    def chain(requests, width):
        return Bucket(requests, width, width, False, width)

    assert verified(1, 8, 0, None) == [chain(1, 1)]
    assert verified(3, 8, 4, None) == [chain(n, w) for n in (1, 2, 4) for w in (1, 5)]
    trees = [bucket for bucket in verified(2, 2, 2, 5) if bucket.tree]
    assert trees == [Bucket(n, 6, 8, True, 6) for n in (1, 2)]


def test_prompts_and_chosen_rows_are_not_captured():
    assert why_eager(batch(PROMPTS)) == PROMPT
    later = batch([(0, 5, [1, 2, 3], False), (1, 2, [4], False)])
    assert why_eager(later) is None
    later.logit_rows.resize_(3)
    assert why_eager(later) == MIXED


def test_padding_by_hand():
    made = batch([(2, 9, [1, 2, 3, 4], True), (0, 5, [7, 8], False)])
    wide = padded(made, Bucket(3, 5, 8, True, 5), [1, 0], scratch=4)
    assert wide.batch.ids.view(3, 5).tolist() == [[7, 8, 0, 0, 0], [1, 2, 3, 4, 0], [0] * 5]
    assert wide.where.tolist() == [5, 6, 7, 8, 0, 1]
    assert wide.seats.tolist() == [1, 0]
    chain, tree, empty = wide.batch.segments
    assert (chain.slab, chain.start, chain.count, chain.visible) == (0, 5, 5, None)
    assert (tree.slab, tree.start, tree.count, tree.before) == (2, 9, 5, 9)
    assert tree.visible[:4, :4].tolist() == TREE.tolist()
    assert tree.visible[:4, 4].tolist() == [False] * 4
    assert tree.visible[4].tolist() == [False] * 4 + [True]
    assert (empty.slab, empty.start) == (4, 0)
    assert wide.batch.places.view(3, 5)[1].tolist() == [9, 10, 11, 12, 13]
    assert wide.batch.positions.view(3, 5)[1, :4].tolist() == [9, 10, 10, 11]


@pytest.mark.parametrize("tree", [False, True])
def test_captures_are_tried_where_nobody_sits(tree):
    made = idle(Bucket(2, 3, 4 if tree else 3, tree, 3), scratch=4)
    assert set(made.slabs.tolist()) == {4}
    assert made.places.tolist() == [0, 1, 2] * 2
    for segment in made.segments:
        told = None if segment.visible is None else segment.visible.tolist()
        assert told == ([[1, 0, 0], [1, 1, 0], [1, 1, 1]] if tree else None)
