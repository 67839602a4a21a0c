"""Parallel heads: what is drafted, at every accepted length, on chains and trees."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from specbench.core.request import Limits, Sampling
from specbench.core.trace import ShortDraft
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.shapes.named import named
from specbench.decoding.shapes.shape import TreeShape
from specbench.decoding.tree import PAD, TrialKind
from specbench.drafters.none import NoDrafter
from specbench.drafters.parallel import ParallelDrafter, line
from specbench.metrics.identities import violations
from specbench.models.heads.configs import FINAL
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.drafters.packed_loops import asked, decode_packed
from tests.drafters.parallel_loops import Defined, drafter_of, planting_in
from tests.models.heads.medusa_heads import HIDDEN, VOCABULARY, checkpoint
from tests.oracle import from_outputs
from tests.planting import Steered

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = [[(7 * i + 3 * j) % 61 + 1 for j in range(1 + i % 4)] for i in range(30)]
"""Enough, and of different lengths, for every accepted length to come up often."""
GAPS = TreeShape.from_paths([[0], [2], [0, 1], [2, 0], [2, 3], [0, 1, 0], [2, 3, 1]])
SHAPES = {"chain": line(4), "medusa_63": named("medusa_63"), "gaps": GAPS}
HEADS = {
    "own": checkpoint("own", heads=5),
    "target": checkpoint("target", heads=5, blocks=2),
    "map": checkpoint("own", heads=5, target_ids=list(range(0, VOCABULARY, 2))),
}


def plain(requests):
    rows, _, _ = decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)
    return {row.request.key.item: row.trace.output_ids for row in rows}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_accepted_length_comes_up_and_leaves_what_a_fresh_drafter_would_have(shape):
    requests = asked(24, prompts=PROMPTS)
    outputs = plain(requests)
    tree, made = SHAPES[shape], HEADS["own"]

    def planted(*_):
        inner = Defined(drafter_of(made, tree), made, tree)
        return Steered(inner, planting_in(tree, from_outputs(outputs)))

    rows, target, used = decode_packed(requests, planted, GREEDY, tree.depth, check=True)
    assert {row.request.key.item: row.trace.output_ids for row in rows} == outputs
    for row in rows:
        assert violations(row.trace, k_max=tree.depth) == []
    lengths = Counter(a for row in rows for a in row.trace.steps.accepted)
    assert min(lengths[length] for length in range(tree.depth + 1)) >= 20, lengths
    assert target.checks == sum(len(row.trace.steps) for row in rows)
    # Every step that had a budget was compared.
    assert used.inner.compared == sum(v > 0 for row in rows for v in row.trace.steps.verified)


@pytest.mark.parametrize(
    ("heads", "shape", "rule", "temperature"),
    [
        ("own", "chain", GREEDY, 0.0),
        ("target", "chain", MULTI_ROUND, 0.8),
        ("map", "gaps", MULTI_ROUND, 0.0),
        ("own", "gaps", TRAVERSAL, 0.8),
        ("target", "medusa_63", GREEDY, 0.0),
        ("map", "medusa_63", MULTI_ROUND, 0.8),
    ],
)
def test_drafts_are_the_heads_best_tokens_at_the_last_verified_place(
    heads, shape, rule, temperature
):
    requests = asked(16, temperature)
    made, tree = HEADS[heads], SHAPES[shape]
    rows, _, used = decode_packed(
        requests, lambda *_: Defined(drafter_of(made, tree), made, tree), rule, 5
    )
    if temperature == 0:
        assert {row.request.key.item: row.trace.output_ids for row in rows} == plain(requests)
    assert used.compared >= 40


@pytest.mark.parametrize("shape", ["chain", "medusa_63"])
def test_a_batch_decodes_as_its_requests_alone(shape):
    requests = asked(12, 0.8)

    def steps(some):
        rows, _, _ = decode_packed(
            some, lambda *_: drafter_of(HEADS["own"], SHAPES[shape]), MULTI_ROUND, 4
        )
        return [(r.trace.output_ids, r.trace.steps.verified, r.trace.steps.accepted) for r in rows]

    assert steps(requests) == [steps([one])[0] for one in requests]


def test_a_request_that_ends_with_its_first_token_leaves_the_others_theirs():
    made, tree = HEADS["own"], line(3)
    requests = asked(12)
    requests[1] = replace(requests[1], limits=Limits(1))
    rows, _, used = decode_packed(
        requests, lambda *_: Defined(drafter_of(made, tree), made, tree), GREEDY, 3
    )
    assert [len(row.trace.output_ids) for row in rows] == [12, 1, 12, 12, 12, 12]
    assert used.compared > 20


@pytest.mark.parametrize("rule", [TARGET_MATCH, REJECTION])
def test_target_match_keeps_plains_tokens_at_a_temperature(rule):
    requests = asked(16, 0.8)
    rows, _, _ = decode_packed(requests, lambda *_: drafter_of(HEADS["own"], line(3)), rule, 3)
    if rule is TARGET_MATCH:
        assert {row.request.key.item: row.trace.output_ids for row in rows} == plain(requests)
    assert all(len(row.trace.output_ids) == 16 for row in rows)


@pytest.mark.parametrize(
    ("shape", "kind"),
    [("chain", TrialKind.ONE_HOT), ("medusa_63", TrialKind.DETERMINISTIC_SET)],
)
def test_candidates_are_chosen_without_chance(shape, kind):
    seen = []

    class Watched(ParallelDrafter):
        def propose(self, rows, budget):
            seen.append(super().propose(rows, budget))
            return seen[-1]

    decode_packed(
        asked(8, 0.8), lambda *_: drafter_of(HEADS["own"], SHAPES[shape], Watched), TRAVERSAL, 4
    )
    assert {draft.trials.kind for draft in seen if draft.tree.width} == {kind}
    assert all(isinstance(draft.laws, OneHotLaws) for draft in seen)


def test_a_tree_deeper_than_there_are_heads_is_cut():
    made = checkpoint(heads=2)
    drafter = drafter_of(made, named("medusa_63"))
    rows, _, _ = decode_packed(
        asked(12), lambda *_: Defined(drafter, made, named("medusa_63")), GREEDY, 5
    )
    steps = rows[0].trace.steps
    # Ten children of the root, and 28 below them.
    nodes = 10 + 28
    assert steps.verified[0] == nodes == drafter.room(5) == drafter.room(2)
    assert drafter.room(1) == 10
    assert drafter.room(0) == 0
    assert steps.short_draft[0] == ShortDraft.DRAFTER_STOPPED


def test_a_vocabulary_with_fewer_tokens_than_candidates_leaves_holes():
    tree = SHAPES["gaps"]
    drafter = drafter_of(checkpoint(heads=3, target_ids=[5, 9, 11]), tree)
    rows, _, _ = decode_packed(asked(12, 0.8), lambda *_: drafter, MULTI_ROUND, 3)
    outputs = {token for row in rows for token in row.trace.output_ids}
    assert PAD not in outputs
    assert not outputs <= {5, 9, 11}
    assert all(len(row.trace.output_ids) == 12 for row in rows)


def test_penalties_see_the_best_tokens_on_the_way():
    # A head that says the same at every depth; a strong penalty makes every depth say another.
    made = checkpoint("target", heads=3)
    zero = {name: torch.zeros_like(tensor) for name, tensor in made.tensors.items()}
    same = replace(made, tensors=zero)
    drafted = []

    class Watched(ParallelDrafter):
        def propose(self, rows, budget):
            drafted.append(super().propose(rows, budget).tree.ids.tolist())
            return super().propose(rows, budget)

    def first_draft(settings):
        drafted.clear()
        requests = asked(8, prompts=[[3, 1, 4]])
        decode_packed(
            [replace(one, sampling=settings) for one in requests],
            lambda *_: drafter_of(same, line(3), Watched),
            GREEDY,
            3,
        )
        return drafted[0][0]

    assert len(set(first_draft(Sampling()))) == 1
    assert len(set(first_draft(Sampling(presence_penalty=1e3)))) == 3


def test_broken_heads_name_the_request():
    made = checkpoint(heads=2)
    broken = dict(made.tensors)
    broken["heads.1.projection.weight"] = torch.full((VOCABULARY, HIDDEN), torch.nan)
    made = replace(made, tensors=broken)
    with pytest.raises(BrokenRowsError, match="draft") as raised:
        decode_packed(asked(8), lambda *_: drafter_of(made, line(2)), GREEDY, 2)
    assert raised.value.requests == tuple(range(6))


def test_hidden_states_of_other_rows_are_refused():
    drafter = drafter_of(HEADS["own"], line(2))

    class Shifted:
        def __getattr__(self, name):
            return getattr(drafter, name)

        def admit(self, rows, taps):
            drafter.admit(rows, {FINAL: taps[FINAL][1:]})

    with pytest.raises(ValueError, match="hidden states of"):
        decode_packed(asked(4), lambda *_: Shifted(), GREEDY, 2)


class StaysAtTheRoot(ParallelDrafter):
    def observe(self, rows, draft, verified, acceptance, taps):
        self._keep(rows, taps[FINAL][verified[:, 0]])


class OneNodeBack(ParallelDrafter):
    def observe(self, rows, draft, verified, acceptance, taps):
        count = acceptance.n_accepted
        last = acceptance.path.gather(1, (count - 1).clamp(min=0)[:, None])
        self._keep(rows, taps[FINAL][verified.gather(1, last.clamp(min=0)).squeeze(1)])


class ByDepth(ParallelDrafter):
    """Takes the accepted length for the node."""

    def observe(self, rows, draft, verified, acceptance, taps):
        place = acceptance.n_accepted[:, None]
        self._keep(rows, taps[FINAL][verified.gather(1, place).squeeze(1)])


class Stale(ParallelDrafter):
    def observe(self, rows, draft, verified, acceptance, taps):
        """Nothing."""


class HeadTooFar(ParallelDrafter):
    def _candidates(self, rows, active, depth, table):
        return super()._candidates(rows, active, depth, table.roll(-1, 1))


class SecondBest(ParallelDrafter):
    def _draft(self, depth, candidates, short):
        return super()._draft(depth, candidates.roll(-1, 2), short)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (StaysAtTheRoot, "chain"),
        (OneNodeBack, "chain"),
        (ByDepth, "gaps"),
        (Stale, "chain"),
        (HeadTooFar, "chain"),
        (HeadTooFar, "medusa_63"),
        (SecondBest, "gaps"),
    ],
)
def test_what_a_fresh_drafter_would_not_do_is_noticed(kind, shape):
    requests = asked(16)
    outputs = plain(requests)
    tree, made = SHAPES[shape], HEADS["own"]

    def planted(*_):
        inner = Defined(drafter_of(made, tree, kind), made, tree)
        return Steered(inner, planting_in(tree, from_outputs(outputs)))

    with pytest.raises(AssertionError):
        decode_packed(requests, planted, GREEDY, tree.depth)
