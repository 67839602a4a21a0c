"""Drafting trees from features: parents, positions, refill from a path, in ragged batches."""

from types import SimpleNamespace

import pytest
import torch

from specbench.decoding.shapes.named import named
from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.features import drafter as drafting
from specbench.drafters.features.advance import HeadAdvance
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from tests.drafters.feature_loops import (
    Compared,
    building,
    nearly_best,
    planted_run,
    planting_in,
)
from tests.drafters.feature_mutants import OFF
from tests.drafters.packed_loops import asked, decode_packed
from tests.drafters.toy_head import LOW_MID_HIGH, SlowToy, ToyHead
from tests.models.families import VOCABULARY, build

pytestmark = pytest.mark.usefixtures("one_thread")

TARGET = build("llama")
SHAPE = TreeShape.from_paths([[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [1, 0, 0]])
FEW = torch.arange(1, VOCABULARY, 3)
HEADS = {"final": ToyHead(), "three-layers": ToyHead(LOW_MID_HIGH), "few": ToyHead(target_ids=FEW)}
TREES = {
    "static": (lambda rows_of: Static(SHAPE, rows_of, True), 3, planting_in(SHAPE)),
    "dynamic": (lambda rows_of: Dynamic(9, 3, rows_of), 3, planting_in(nearly_best(3))),
}


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("head", HEADS)
def test_nodes_are_those_of_the_definition_whatever_was_accepted(tree, head):
    growth, k, steering = TREES[tree]
    network = HEADS[head]
    found = planted_run(
        asked(20),
        building(network, growth, VOCABULARY),
        steering,
        k,
        TARGET,
        reference=SlowToy(network),
    )
    assert found.compared >= 30
    if head != "few":
        assert found.lengths.keys() >= {0, 1, 2, 3}


@pytest.mark.parametrize("tree", TREES)
def test_a_single_request_too(tree):
    growth, k, steering = TREES[tree]
    network = HEADS["final"]
    made = building(network, growth, VOCABULARY)
    (alone,) = asked(32)[2:3]
    found = planted_run([alone], made, steering, k, TARGET, reference=SlowToy(network))
    assert found.compared >= 8


@pytest.mark.parametrize("tree", TREES)
def test_sampled_trees_too(tree):
    growth, k, _ = TREES[tree]
    build_one = building(HEADS["final"], growth, VOCABULARY)

    def compared(pool, _):
        return Compared(build_one(pool), build_one, TARGET, SlowToy(HEADS["final"]))

    rows, _, used = decode_packed(asked(16, 0.9), compared, MULTI_ROUND, k, TARGET)
    assert used.compared >= 30
    assert any(sum(row.trace.steps.accepted) for row in rows)


@pytest.mark.parametrize("tree", TREES)
def test_a10_rows_of_a_batch_equal_their_own_runs(tree):
    growth, k, _ = TREES[tree]
    made = building(HEADS["three-layers"], growth, VOCABULARY)
    requests = asked(16, 0.9)[:4]

    def run(some):
        rows, _, _ = decode_packed(some, lambda pool, _: made(pool), MULTI_ROUND, k, TARGET)
        return {r.request.key.item: (r.trace.output_ids, r.trace.steps.accepted) for r in rows}

    alone = {}
    for one in requests:
        alone |= run([one])
    assert run(requests) == alone


def test_a_tree_of_one_path_is_the_chain():
    line = TreeShape.from_paths([[0], [0, 0], [0, 0, 0]])
    growths = [lambda rows_of: Static(line, rows_of, False), lambda rows_of: Chain(rows_of, False)]
    found = [
        planted_run(
            asked(20), building(HEADS["final"], growth, VOCABULARY), planting_in(line), 3, TARGET
        )
        for growth in growths
    ]
    steps = [[(r.trace.steps.verified, r.trace.steps.accepted) for r in one.rows] for one in found]
    assert steps[0] == steps[1]


class RootsHidden(HeadAdvance):
    """Feeds every node the hidden state of the committed slots."""

    def __call__(self, frontier):
        known = [len(line) for line in self._processed]
        self._processed = [[b] * (count + 1) for b, count in enumerate(known)]
        logits = super().__call__(frontier)
        self._processed = [[0] * (count + frontier.owner.count(b)) for b, count in enumerate(known)]
        return logits


class NeighboursHidden(HeadAdvance):
    """Feeds every node the hidden state that the one beside it should have had."""

    def __init__(self, head, rows, starts, hidden):
        def forward(batch, hidden, *, fresh):
            return head.forward(batch, hidden.roll(1, 0), fresh=fresh)

        super().__init__(SimpleNamespace(forward=forward), rows, starts, hidden)


@pytest.mark.parametrize("mutant", [RootsHidden, NeighboursHidden])
@pytest.mark.parametrize("tree", TREES)
def test_the_hidden_state_of_another_node_is_caught(monkeypatch, mutant, tree):
    growth, k, steering = TREES[tree]
    network = HEADS["final"]
    monkeypatch.setattr(drafting, "HeadAdvance", mutant)
    made = building(network, growth, VOCABULARY)
    planted_run(asked(8), made, steering, k, TARGET, compare=False)
    with pytest.raises(AssertionError):
        planted_run(asked(8), made, steering, k, TARGET, reference=SlowToy(network))


class FirstNodes(FeatureDrafter):
    """Takes the hidden states of the first nodes, as if the accepted path were a chain."""

    def observe(self, rows, draft, verified, acceptance, taps):
        wrong = verified.clone()
        for b, count in enumerate(acceptance.n_accepted.tolist()):
            wrong[b, 1 + acceptance.path[b, :count]] = verified[b, 1 : 1 + count]
        super().observe(rows, draft, wrong, acceptance, taps)


@pytest.mark.parametrize(
    ("mutant", "tree"), [(FirstNodes, "dynamic"), *((one, "static") for one in (FirstNodes, *OFF))]
)
def test_a_refill_that_is_off_is_caught_although_the_output_stays_right(mutant, tree):
    growth, k, steering = TREES[tree]
    made = building(HEADS["final"], growth, VOCABULARY, kind=mutant)
    planted_run(asked(12), made, steering, k, TARGET, compare=False)
    with pytest.raises(AssertionError):
        planted_run(asked(12), made, steering, k, TARGET)


def test_the_published_tree_is_drafted_in_full():
    made = building(
        HEADS["final"], lambda rows_of: Static(named("eagle_25"), rows_of, True), VOCABULARY
    )
    rows, _, _ = decode_packed(asked(20), lambda pool, _: made(pool), GREEDY, 5, TARGET)
    for row in rows:
        assert row.trace.steps.verified[0] == 25
