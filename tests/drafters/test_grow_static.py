"""Static trees: which tokens, which laws, which numbers; against slow definitions."""

import math
from collections import Counter
from itertools import permutations

import pytest
import torch
from scipy import stats

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.random import Stream, uniforms
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.shapes.shape import TreeShape
from specbench.decoding.tree import PAD, ROOT, TrialKind
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.static import Static
from tests.drafters.grown import by_rank, grow, random_rows, requests

V = 7
ROWS_OF = DraftRows(V)
SHAPE = TreeShape.from_paths(
    [[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0, 0]]
)
LEVELS = [0, 0, 2, 2, 2, 2]
"""Inner nodes of the widest depth of SHAPE by longest path: two at depth 1, two at 2, one at 3."""
GAPS = TreeShape.from_paths([[0], [2], [2, 3], [2, 3, 1]])
LINE = TreeShape.from_paths([[0], [0, 0], [0, 0, 0]])


@pytest.mark.parametrize("shape", [SHAPE, GAPS, LINE], ids=len)
@pytest.mark.parametrize("grain", [0.0, 1.0, 3.0])
def test_greedy_children_are_the_best_tokens_of_their_rank(shape, grain):
    rows = random_rows(1, V, grain)
    found = grow(Static(shape, ROWS_OF, False), requests([0.8] * 5), [4] * 5, rows)
    for b in range(5):
        row = lambda path, b=b: rows(b, path)  # noqa: E731
        assert found.paths(b) == [by_rank(row, ranks) for ranks in shape.paths()]
    assert found.draft.trials.kind is TrialKind.DETERMINISTIC_SET
    assert isinstance(found.draft.laws, OneHotLaws)


def drawn(row, seed, step, shape, temperature):
    """Paths by inverse CDF over the row without what was drawn before, in plain floats."""
    found, paths = {}, {(): ()}
    for node, ranks in enumerate(shape.paths()):
        if ranks[:-1] not in paths:
            continue
        above = paths[ranks[:-1]]
        weights = [math.exp(x / temperature) for x in row(above)]
        for rank in range(ranks[-1]):
            weights[found[*ranks[:-1], rank]] = 0.0
        point = float(uniforms(seed, Stream.DRAFT, step, node)) * sum(weights)
        token = 0
        while (point := point - weights[token]) >= 0:
            token += 1
        found[ranks] = token
        paths[ranks] = (*above, token)
    return [paths[ranks] for ranks in shape.paths()]


def test_sampled_children_are_drawn_without_replacement_with_a_number_per_node():
    rows = random_rows(2, V)
    batch = requests([0.7, 1.0, 1.3], seeds=[11, 22, 33])
    batch[1].step = 5
    found = grow(Static(SHAPE, ROWS_OF, True), batch, [4, 4, 4], rows)
    for b, row in enumerate(batch):
        own = lambda path, b=b: rows(b, path)  # noqa: E731
        seed, temperature = row.request.seed, row.request.sampling.temperature
        assert found.paths(b) == drawn(own, seed, row.step, SHAPE, temperature)


def test_siblings_share_the_row_of_their_parents_law():
    rows = random_rows(3, V)
    found = grow(Static(SHAPE, ROWS_OF, True), requests([0.7, 1.3]), [4, 4], rows)
    draft = found.draft
    assert draft.trials.kind is TrialKind.WITHOUT_REPLACEMENT
    assert isinstance(draft.laws, DenseLaws)
    assert draft.laws.rows.shape == (2, 1 + 5, V)
    for b, temperature in enumerate([0.7, 1.3]):
        paths = found.paths(b)
        trials = draft.trials
        tried = torch.stack([trials.parent[b], trials.node[b], trials.law[b]], 1).tolist()
        for place, (parent, node, law) in enumerate(tried):
            assert (place, parent) == (node, draft.tree.parents[b, node])
            above = paths[parent] if parent != ROOT else ()
            expected = torch.softmax(torch.tensor(rows(b, above)).double() / temperature, 0)
            assert draft.laws.rows[b, law].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_law_of_sampled_children_is_the_one_that_rules_assume():
    samples, row = 6000, [0.5, 0.3, 0.15, 0.05]
    fork = TreeShape.from_paths([[0], [1], [0, 0], [0, 1]])
    logits = [math.log(p) for p in row]
    found = grow(
        Static(fork, DraftRows(4), True), requests([1.0] * samples), [2] * samples,
        lambda b, path: logits,
    )  # fmt: skip
    pairs = {(x, y): row[x] * row[y] / (1 - row[x]) for x, y in permutations(range(4), 2)}
    expected = {(*a, *b): p * q for a, p in pairs.items() for b, q in pairs.items()}
    counts = Counter(tuple(line) for line in found.draft.tree.ids.tolist())
    assert counts.keys() <= expected.keys()
    large = [key for key, p in expected.items() if p * samples >= 8]
    observed = [counts[key] for key in large]
    wanted = [expected[key] * samples for key in large]
    observed.append(samples - sum(observed))
    wanted.append(samples - sum(wanted))
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


@pytest.mark.parametrize("sampled", [True, False])
def test_a_row_with_few_tokens_gives_fewer_nodes_and_nothing_below_the_missing_ones(sampled):
    def rows(b, path):
        return [0.0, 1.0, -math.inf] if path in ((), (1,)) else [-math.inf, 0.0, -math.inf]

    shape = TreeShape.from_paths([[0], [1], [2], [0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [0, 1, 0]])
    found = grow(Static(shape, DraftRows(3), sampled), requests([1.0] * 40), [3] * 40, rows)
    for b in range(40):
        paths = found.paths(b)
        assert {path for path in paths if len(path) == 1} == {(0,), (1,)}
        below = {0: {(0, 1)}, 1: {(1, 0), (1, 1)}}
        second = paths[0][0]
        # The second child of the first node is there if that node is token 1, and so is its child.
        deep = 1 if second == 1 else 0
        expected = {(0,), (1,)} | below[0] | below[1]
        assert {path for path in paths if len(path) < 3} == expected
        assert sum(len(path) == 3 for path in paths) == deep
        assert found.draft.short[b] is (ShortDraft.NONE if deep else ShortDraft.DRAFTER_STOPPED)
    assert found.draft.proposed == found.draft.tree.counts


@pytest.mark.parametrize("sampled", [True, False])
def test_only_inner_nodes_are_processed_and_the_budget_cuts_the_depth(sampled):
    growth = Static(SHAPE, ROWS_OF, sampled)
    found = grow(growth, requests([1.0] * 5), [4, 2, 1, 0, 9], random_rows(4, V))
    assert found.draft.tree.counts == (10, 6, 3, 0, 10)
    assert [len(found.advanced.paths.get(b, ())) for b in range(5)] == [5, 2, 0, 0, 5]
    assert found.advanced.calls == 3
    for b, kept in ((0, 10), (1, 6), (2, 3), (4, 10)):
        alone = grow(
            growth, requests([1.0], [b]), [4], lambda _, path, b=b: random_rows(4, V)(b, path)
        )
        assert found.paths(b) == alone.paths(0)[:kept]
    assert [growth.room(k) for k in range(6)] == [0, 3, 6, 9, 10, 10]
    assert [growth.nodes(k) for k in range(6)] == [0, 3, 6, 9, 10, 10]
    assert [growth.level(k) for k in range(6)] == LEVELS
    assert found.advanced.widest == max(LEVELS)
    assert found.draft.short[4] is ShortDraft.DRAFTER_STOPPED
    assert set(found.draft.short[:4]) == {ShortDraft.NONE}


def test_requests_at_temperature_zero_take_the_best_tokens_in_a_sampled_batch():
    rows = random_rows(5, V)
    mixed = grow(Static(SHAPE, ROWS_OF, True), requests([1.0, 0.0, 1.0]), [4] * 3, rows)
    assert mixed.paths(1) == [by_rank(lambda path: rows(1, path), r) for r in SHAPE.paths()]
    cold = grow(Static(SHAPE, ROWS_OF, True), requests([0.0, 0.0]), [4] * 2, rows)
    assert cold.paths(1) == mixed.paths(1)
    assert cold.draft.trials.kind is TrialKind.DETERMINISTIC_SET


@pytest.mark.parametrize("sampled", [True, False])
def test_a_shape_with_one_path_is_the_chain(sampled):
    rows, budget = random_rows(6, V), [3, 2, 0]
    line = grow(Static(LINE, ROWS_OF, sampled), requests([1.0] * 3), budget, rows).draft
    chain = grow(Chain(ROWS_OF, sampled), requests([1.0] * 3), budget, rows).draft
    assert line.tree.chain
    assert torch.equal(line.tree.ids, chain.tree.ids)
    assert torch.equal(line.tree.parents, chain.tree.parents)
    if sampled:
        assert torch.equal(line.laws.rows, chain.laws.rows)


@pytest.mark.parametrize("sampled", [True, False])
def test_penalties_see_the_path(sampled):
    batch = requests([0.9], presence_penalty=1e4)
    found = grow(Static(SHAPE, ROWS_OF, sampled), batch, [4], random_rows(7, V))
    assert all(len(set(path)) == len(path) for path in found.paths(0))


def test_a_broken_row_names_its_request():
    def rows(b, path):
        return [math.nan if (b, len(path)) == (1, 2) else 1.0 * x for x in range(V)]

    with pytest.raises(BrokenRowsError) as broken:
        grow(Static(SHAPE, ROWS_OF, True), requests([1.0] * 3), [4] * 3, rows)
    assert broken.value.requests == (1,)


def test_a_sampled_shape_may_not_leave_out_a_rank():
    with pytest.raises(ValueError, match=r"\[2\]"):
        Static(GAPS, ROWS_OF, True)


def test_padding_is_no_node():
    found = grow(Static(SHAPE, ROWS_OF, True), requests([1.0] * 2), [4, 1], random_rows(8, V)).draft
    assert found.tree.ids[1, 3:].tolist() == [PAD] * 7
    assert found.trials.node[1, 3:].tolist() == [PAD] * 7
    assert not found.tree.chain
