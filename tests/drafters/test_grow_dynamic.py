"""Dynamic trees against EAGLE-2's definition, its index arithmetic, and a case by hand."""

import math

import pytest
import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.tree import TrialKind
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from tests.drafters.grown import best_paths, chances, grow, random_rows, requests

V = 9
ROWS_OF = DraftRows(V)


@pytest.mark.parametrize(
    ("nodes", "top_k", "depth"),
    [
        (8, 3, 3),
        (59, 4, 5),
        (12, 4, 2),
        (1, 3, 3),
        (1000, 3, 3),
        (5, 1, 4),
        (20, 9, 2),
        (30, 20, 3),
    ],
)
@pytest.mark.parametrize("grain", [0.0, 1.0])
def test_the_tree_is_the_n_best_of_what_is_expanded(nodes, top_k, depth, grain):
    rows = random_rows(1, V, grain)
    budget = [depth, depth - 1, depth, 0, depth]
    found = grow(Dynamic(nodes, top_k, ROWS_OF), requests([0.9] * 5), budget, rows)
    for b, levels in enumerate(budget):
        expected, recorded = best_paths(lambda path, b=b: rows(b, path), nodes, top_k, levels)
        assert found.paths(b) == expected
        assert found.draft.proposed[b] == recorded
        kept = max(map(len, expected), default=0)
        why = ShortDraft.NONE if kept == levels else ShortDraft.DRAFTER_STOPPED
        assert found.draft.short[b] is why
    assert found.draft.trials.kind is TrialKind.DETERMINISTIC_SET
    assert isinstance(found.draft.laws, OneHotLaws)
    assert found.advanced.calls == depth - 1


def eagle_indices(row, nodes, top_k, depth):
    """Tokens and parents by the index arithmetic of EAGLE's topK_genrate, on plain lists.

    Parent numbers count from 1 in the flat list of all candidates, 0 is the root; ``depth`` is the
    number of levels, one more than its own ``depth``.
    """

    def top(values):
        order = sorted(range(len(values)), key=lambda i: -values[i])[:top_k]
        return order, [values[i] for i in order]

    ids, scores = top(chances(row, ()))
    all_scores, all_tokens, parents = list(scores), list(ids), [0]
    paths, chosen = [(token,) for token in ids], list(range(top_k))
    for i in range(depth - 1):
        bias = 1 + top_k**2 * max(0, i - 1) + (top_k if i > 0 else 0)
        parents += [index + bias for index in chosen]
        tops = [top(chances(row, path)) for path in paths]
        below = [token for tokens, _ in tops for token in tokens]
        sums = [
            gain + score for (_, gains), score in zip(tops, scores, strict=True) for gain in gains
        ]
        all_tokens += below
        all_scores += sums
        chosen, scores = top(sums)
        paths = [(*paths[index // top_k], below[index]) for index in chosen]
    ranked = sorted(range(len(all_scores)), key=lambda i: -all_scores[i])[:nodes]
    kept = sorted(ranked)
    above = [parents[index // top_k] for index in kept]
    places = [-1 if parent == 0 else kept.index(parent - 1) for parent in above]
    return [all_tokens[index] for index in kept], places


@pytest.mark.parametrize(("nodes", "top_k", "depth"), [(8, 3, 3), (25, 4, 5), (40, 5, 4)])
def test_nodes_have_the_order_of_eagles_index_arithmetic(nodes, top_k, depth):
    rows = random_rows(2, V)
    tree = grow(Dynamic(nodes, top_k, ROWS_OF), requests([0.0] * 6), [depth] * 6, rows).draft.tree
    for b in range(6):
        tokens, parents = eagle_indices(lambda path, b=b: rows(b, path), nodes, top_k, depth)
        assert tree.ids[b, : tree.counts[b]].tolist() == tokens
        assert tree.parents[b, : tree.counts[b]].tolist() == parents


def test_a_small_tree_by_hand():
    table = {
        (): [0.6, 0.3, 0.1],
        (0,): [0.1, 0.7, 0.2],
        (1,): [0.0, 0.05, 0.95],
        (0, 1): [0.5, 0.3, 0.2],
        (1, 2): [0.9, 0.05, 0.05],
    }

    def rows(b, path):
        return [math.log(p) if p else -math.inf for p in table[path]]

    found = grow(Dynamic(6, 2, DraftRows(3)), requests([1.0]), [3], rows)
    # Level 1: .6 .3; level 2: .42 .12 below token 0, .285 .015 below token 1; the frontier is
    # (0, 1) and (1, 2); level 3: .21 .126 and .2565 .01425. The six best stop at .21.
    assert found.paths(0) == [(0,), (1,), (0, 1), (1, 2), (0, 1, 0), (1, 2, 0)]
    assert found.draft.proposed == (2 + 4 + 4,)
    assert found.advanced.paths[0] == [(0,), (1,), (0, 1), (1, 2)]


def test_of_equal_scores_the_first_recorded_wins_and_parents_come_before_children():
    # Every second token is certain: a child has the score of its parent.
    def rows(b, path):
        certain = [-math.inf] * V
        certain[3] = 0.0
        return [0.0] * V if len(path) % 2 == 0 else certain

    for nodes in range(1, 12):
        found = grow(Dynamic(nodes, 3, ROWS_OF), requests([1.0]), [4], rows)
        expected, _ = best_paths(lambda path: rows(0, path), nodes, 3, 4)
        assert found.paths(0) == expected
        assert expected[: min(nodes, 3)] == [(0,), (1,), (2,)][:nodes]


def test_the_tree_does_not_depend_on_temperature_and_truncation():
    rows = random_rows(3, V)
    growth = Dynamic(20, 3, ROWS_OF)
    plain = grow(growth, requests([0.0]), [4], rows)
    hot = grow(growth, requests([1.7], top_k=1, top_p=0.5), [4], rows)
    assert plain.paths(0) == hot.paths(0)


def test_neighbours_do_not_matter():
    growth, rows = Dynamic(15, 3, ROWS_OF), random_rows(4, V)
    together = grow(growth, requests([1.0] * 3), [4, 2, 3], rows)
    for b, budget in enumerate([4, 2, 3]):
        alone = grow(growth, requests([1.0]), [budget], lambda _, path, b=b: rows(b, path))
        assert together.paths(b) == alone.paths(0)


def test_one_candidate_per_node_is_the_greedy_chain():
    rows = random_rows(5, V)
    tree = grow(Dynamic(4, 1, ROWS_OF), requests([1.0] * 2), [4, 3], rows).draft.tree
    chain = grow(Chain(ROWS_OF, False), requests([1.0] * 2), [4, 3], rows).draft.tree
    assert tree.chain
    assert torch.equal(tree.ids, chain.ids)


def test_penalties_see_the_path():
    batch = requests([1.0], presence_penalty=1e4)
    found = grow(Dynamic(40, 3, ROWS_OF), batch, [4], random_rows(6, V))
    assert all(len(set(path)) == len(path) for path in found.paths(0))


def test_room_holds_every_tree():
    assert [Dynamic(59, 10, ROWS_OF).room(k) for k in (0, 1, 2, 6, 8)] == [0, 10, 59, 59, 70]
    assert Dynamic(4, 10, ROWS_OF).room(1) == 4


def test_what_is_verified_and_processed_at_once_is_less_than_room():
    """Frontiers of 64 at 15 levels are 960 rows; 59 nodes are verified, a frontier is one call."""
    wide = Dynamic(59, 64, ROWS_OF)
    assert wide.room(16) == 960
    assert [wide.nodes(k) for k in (0, 1, 2, 16)] == [0, 59, 59, 59]
    assert [wide.level(k) for k in (0, 1, 2, 16)] == [0, 0, 64, 64]
    # 3 below the root, then 3 below each of 3 per level
    assert [Dynamic(99, 3, ROWS_OF).nodes(k) for k in (1, 2, 3)] == [3, 12, 21]
