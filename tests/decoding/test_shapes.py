"""Shapes of static trees: published ones, products, and searches against enumeration."""

from __future__ import annotations

import random
from itertools import product
from math import prod

import pytest

from specbench.decoding.shapes.best_first import best_first
from specbench.decoding.shapes.cartesian import cartesian, node_count
from specbench.decoding.shapes.expected import Accuracies, expected
from specbench.decoding.shapes.named import NAMED, named
from specbench.decoding.shapes.optimal import optimal
from specbench.decoding.shapes.shape import TreeShape

FALLING = [0.5, 0.2, 0.1]
RISING = [0.1, 0.2, 0.6]
BY_DEPTH = [[0.6, 0.2, 0.1], [0.3, 0.25], [0.7, 0.1, 0.1]]


def subtrees(nodes, depth, breadth):
    """Every tree of so many nodes below a root: child k of a node exists only with child k - 1."""
    if nodes == 0:
        yield frozenset()
        return
    if depth == 0:
        return

    def forests(left, rank):
        """Children from ``rank`` on, with ``left`` nodes in their subtrees."""
        if left == 0:
            yield frozenset()
        elif rank < breadth:
            for size in range(1, left + 1):
                for below in subtrees(size - 1, depth - 1, breadth):
                    own = {(rank,)} | {(rank, *path) for path in below}
                    for rest in forests(left - size, rank + 1):
                        yield own | rest

    yield from forests(nodes, 0)


def value(paths, accuracies):
    """The sum of path products, by hand."""
    return sum(
        prod(accuracies.of_node(d, rank) for d, rank in enumerate(path, 1)) for path in paths
    )


def best_by_enumeration(accuracies, nodes, depth, breadth=3):
    return max(value(paths, accuracies) for paths in subtrees(nodes, depth, breadth))


def test_enumeration_finds_all_trees():
    # Catalan numbers: ordered trees with 1, 2, 3, 4 edges.
    assert [len(list(subtrees(n, n, n))) for n in (1, 2, 3, 4)] == [1, 2, 5, 14]


@pytest.mark.parametrize(
    ("name", "nodes", "by_depth"),
    [
        ("eagle_25", 25, [4, 8, 8, 3, 2]),
        ("medusa_63", 63, [10, 28, 23, 2]),
        ("vicuna_7b_stage2", 63, [10, 23, 23, 7]),
        ("zephyr_stage2", 63, [10, 27, 23, 3]),
    ],
)
def test_published_shapes(name, nodes, by_depth):
    shape = named(name)
    assert len(shape) == nodes
    depths = list(shape.depths)
    assert [depths.count(d) for d in range(1, shape.depth + 1)] == by_depth


@pytest.mark.parametrize("name", NAMED)
def test_published_shapes_draft_candidates_in_order(name):
    # Rank r only where rank r - 1 is: what every search for them gives.
    paths = set(named(name).paths())
    assert all((*path[:-1], rank) in paths for path in paths for rank in range(path[-1]))


def test_a_product_has_all_combinations():
    shape = cartesian([3, 2, 2])
    wanted = [path for n in (1, 2, 3) for path in product(*map(range, (3, 2, 2)[:n]))]
    assert shape.paths() == wanted
    assert shape == TreeShape.from_paths(wanted)
    assert len(shape) == node_count([3, 2, 2]) == 3 + 6 + 12


@pytest.mark.parametrize("sizes", [[1], [1, 1, 1], [5], [2, 3]])
def test_products_of_any_depth(sizes):
    shape = cartesian(sizes)
    assert (shape.depth, shape.breadth) == (len(sizes), max(sizes))
    assert node_count(sizes) == len(shape)


def test_expected_tokens_by_playing_it_out():
    # The rank that is right at every depth is drawn; the accepted tokens are the longest path of
    # right ranks. Mean over all outcomes, weighted by hand.
    accuracies = Accuracies.of(BY_DEPTH)
    shape = TreeShape.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 0), (0, 1, 1)])
    paths = set(shape.paths())
    outcomes = [[*enumerate(row), (99, 1 - sum(row))] for row in BY_DEPTH]
    mean = 0.0
    for ranks in product(*outcomes):
        drawn = tuple(rank for rank, _ in ranks)
        accepted = max(d for d in range(4) if d == 0 or drawn[:d] in paths)
        mean += accepted * prod(chance for _, chance in ranks)
    assert expected(shape, accuracies) == pytest.approx(mean)


def test_expected_tokens_of_a_chain_are_the_geometric_sum():
    shape = cartesian([1] * 5)
    a = 0.8
    assert expected(shape, Accuracies.of([a])) == pytest.approx(a * (1 - a**5) / (1 - a))


def test_accuracies_end_where_none_are_given():
    accuracies = Accuracies.of(BY_DEPTH)
    assert accuracies.at(2) == (0.3, 0.25)
    assert accuracies.at(4) == ()
    assert accuracies.of_node(2, 2) == 0.0
    assert Accuracies.of(FALLING).at(9) == tuple(FALLING)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "neither"),
        ([0.5, [0.5]], "neither"),
        ([[0.5], []], "depth 2"),
        ([1.5], r"\[0, 1\]"),
        ([True], r"\[0, 1\]"),
        ([0.6, 0.5], "sum over ranks is 1.1"),
        ([["a"]], "depth 1"),
    ],
)
def test_numbers_that_are_no_accuracies(values, message):
    with pytest.raises(ValueError, match=message):
        Accuracies.of(values)


@pytest.mark.parametrize("rows", [FALLING, RISING, BY_DEPTH, [[0.1, 0.3], [0.2, 0.5, 0.1]]])
@pytest.mark.parametrize("nodes", range(1, 7))
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_programme_finds_the_best_tree(rows, nodes, depth):
    accuracies = Accuracies.of(rows)
    levels = min(depth, len(rows)) if not accuracies.endless else depth
    breadths = [len(accuracies.at(d)) for d in range(1, levels + 1)]
    room = node_count(breadths)
    shape, worth = optimal(accuracies, nodes, depth)
    assert len(shape) == min(nodes, room)
    assert shape.depth <= depth
    assert worth == pytest.approx(value(shape.paths(), accuracies))
    assert worth == pytest.approx(expected(shape, accuracies))
    if nodes <= room:
        allowed = [
            paths
            for paths in subtrees(nodes, levels, 3)
            if all(rank < breadths[d] for path in paths for d, rank in enumerate(path))
        ]
        assert worth == pytest.approx(max(value(paths, accuracies) for paths in allowed))


@pytest.mark.parametrize("breadth", [1, 2])
def test_a_bound_on_the_children_of_a_node(breadth):
    accuracies = Accuracies.of(RISING)
    shape, worth = optimal(accuracies, 5, 4, breadth)
    assert shape.breadth <= breadth
    limit = min(5, node_count([breadth] * 4))
    assert worth == pytest.approx(best_by_enumeration(accuracies, limit, 4, breadth))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nodes", [1, 7, 20])
def test_greedy_is_optimal_where_accuracies_fall_with_the_rank(seed, nodes):
    chance = random.Random(seed)
    rows = [sorted((chance.random() / 4 for _ in range(4)), reverse=True) for _ in range(4)]
    accuracies = Accuracies.of(rows)
    shape = best_first(accuracies, nodes, 4)
    assert len(shape) == nodes
    # No other set of nodes of that size is worth more: the largest path products of all paths.
    every = [value([path], accuracies) for n in (1, 2, 3, 4) for path in product(*[range(4)] * n)]
    wanted = sum(sorted(every)[-nodes:])
    assert expected(shape, accuracies) == pytest.approx(wanted)
    assert optimal(accuracies, nodes, 4)[1] == pytest.approx(wanted)


def test_greedy_is_not_optimal_where_they_do_not():
    accuracies = Accuracies.of(RISING)
    greedy = expected(best_first(accuracies, 6, 3), accuracies)
    assert greedy < best_by_enumeration(accuracies, 6, 3)


def test_a_search_stops_where_there_is_no_room():
    accuracies = Accuracies.of([[0.5, 0.2], [0.4]])
    assert best_first(accuracies, 50, 9).paths() == [(0,), (1,), (0, 0), (1, 0)]
    assert optimal(accuracies, 50, 9)[0].paths() == [(0,), (1,), (0, 0), (1, 0)]


def test_equal_values_give_the_shorter_path_first():
    # [0, 0] and [1] are worth the same.
    assert best_first(Accuracies.of([0.5, 0.25]), 2, 3).paths() == [(0,), (1,)]


def test_medusas_search_by_hand():
    # 0: .5, then [1] .2 against [0, 0] .25, then [1] .2 against [0, 1] .1 and [0, 0, 0] .125.
    found = best_first(Accuracies.of(FALLING), 4, 3)
    assert found.paths() == [(0,), (1,), (0, 0), (0, 0, 0)]


def test_cutting_a_shape_keeps_its_first_levels():
    shape = named("eagle_25")
    assert shape.cut(2).paths() == [path for path in shape.paths() if len(path) <= 2]
