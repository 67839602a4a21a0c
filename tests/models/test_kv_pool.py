"""Slabs, lengths, aliases, and accepted rows that move to their place."""

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.kv_pool import KVPool, LayerGeometry

GEOMETRY = [LayerGeometry(2, 3, 4), LayerGeometry(1, 5, 5)]


def pool_of(slabs=2, capacity=8):
    pool = KVPool(slabs, capacity, torch.float32, torch.device("cpu"))
    pool.add_owner("target", GEOMETRY)
    return pool


def number_rows(pool, owner="target"):
    for layer in range(len(GEOMETRY)):
        for tensor in pool.layer(owner, layer):
            tensor[:] = torch.arange(pool.capacity).view(1, 1, -1, 1)


def rows(pool, slab, layer=0):
    return [tensor[slab, 0, :, 0].tolist() for tensor in pool.layer("target", layer)]


def test_shapes_follow_the_geometry():
    keys, values = pool_of().layer("target", 0)
    assert keys.shape == (2, 2, 8, 3)
    assert values.shape == (2, 2, 8, 4)


def test_slabs_are_given_out_once_and_come_back():
    pool = pool_of()
    first, second = pool.admit(8), pool.admit(1)
    assert {first, second} == {0, 1}
    assert pool.available == 0
    pool.release(first)
    assert pool.admit(3) == first


def test_a_slab_starts_empty_for_its_next_request():
    pool = pool_of()
    pool.add_owner("draft", GEOMETRY[:1])
    slab = pool.admit(4)
    pool.set_length("target", slab, 4)
    pool.set_length("draft", slab, 3)
    pool.release(slab)
    assert pool.admit(4) == slab
    assert pool.view("target", slab).length == pool.view("draft", slab).length == 0


def test_a_request_that_does_not_fit_is_refused_with_both_numbers():
    pool = pool_of()
    with pytest.raises(SpecbenchError, match=r"9 .*8"):
        pool.admit(9)
    assert pool.available == 2


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7]),  # a chain: nothing moves
        ([0, 2, 4], [0, 1, 2, 4, 6, 5, 6, 7]),
        ([0, 3], [0, 1, 2, 5, 4, 5, 6, 7]),
        ([], [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_accepted_rows_move_behind_the_valid_ones(kept, expected):
    pool = pool_of()
    slab, other = pool.admit(8), pool.admit(8)
    number_rows(pool)
    pool.set_length("target", slab, 2)
    pool.keep("target", slab, kept)
    assert pool.view("target", slab).length == 2 + len(kept)
    for layer in range(2):
        assert rows(pool, slab, layer) == [expected, expected]
        assert rows(pool, other, layer) == [list(range(8))] * 2


def test_an_alias_shares_rows_and_lengths_of_the_first_layers():
    pool = pool_of()
    pool.alias("exit", "target", 1)
    slab = pool.admit(8)
    pool.layer("exit", 0)[0][slab] = 7.0
    assert (pool.layer("target", 0)[0][slab] == 7.0).all()
    assert (pool.layer("target", 1)[0] == 0.0).all()
    pool.set_length("target", slab, 5)
    assert pool.view("exit", slab).length == 5
    with pytest.raises(IndexError):
        pool.layer("exit", 1)


def test_an_owner_may_have_a_type_of_its_own():
    pool = pool_of()
    pool.add_owner("draft", GEOMETRY, torch.bfloat16)
    assert pool.layer("draft", 0)[0].dtype is torch.bfloat16
    assert pool.layer("target", 0)[0].dtype is torch.float32


def test_keeping_a_path_of_an_alias_moves_rows_of_its_layers_alone():
    pool = pool_of()
    pool.alias("exit", "target", 1)
    slab = pool.admit(8)
    number_rows(pool)
    pool.set_length("exit", slab, 1)
    pool.keep("exit", slab, [0, 3, 4])
    assert rows(pool, slab, 0) == [[0, 1, 4, 5, 4, 5, 6, 7]] * 2
    assert rows(pool, slab, 1) == [list(range(8))] * 2
    assert pool.view("target", slab).length == 4


def test_bytes_count_aliased_layers_once():
    pool = pool_of()
    # Two slabs of 8 rows: 2 heads of 3 and of 4 numbers, then one head of 5, twice; 4 bytes each.
    expected = 2 * 8 * (2 * (3 + 4) + 1 * (5 + 5)) * 4
    assert pool.nbytes == expected
    pool.alias("exit", "target", 1)
    assert pool.nbytes == expected
    pool.add_owner("draft", GEOMETRY[:1], torch.bfloat16)
    assert pool.nbytes == expected + 2 * 8 * 2 * (3 + 4) * 2
