"""Drafting from features: slots, positions, refill and carry, in ragged batches."""

from dataclasses import replace

import pytest
import torch

from specbench.core.request import Stops
from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Tap
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.models.kv_pool import KVPool
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from tests.drafters.feature_loops import CPU, Compared, building, plain_outputs, planted_run
from tests.drafters.feature_mutants import OFF
from tests.drafters.packed_loops import asked, decode_packed
from tests.drafters.toy_head import LOW_MID_HIGH, SlowToy, ToyHead
from tests.models.families import VOCABULARY, build
from tests.planting import planting
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

FEW = torch.arange(1, VOCABULARY, 3)
TARGET = build("llama")
HEADS = {
    "final": ToyHead(),
    "three-layers": ToyHead(LOW_MID_HIGH),
    "target's-hidden": ToyHead(keeps_hidden=True),
    "few-tokens": ToyHead(target_ids=FEW),
}


def chains(network, sampled=False, **changes):
    return building(network, lambda rows_of: Chain(rows_of, sampled), VOCABULARY, **changes)


@pytest.mark.parametrize("network", HEADS.values(), ids=HEADS)
def test_drafts_are_those_of_the_definition_whatever_was_accepted(network):
    found = planted_run(asked(24), chains(network), planting, 4, TARGET, reference=SlowToy(network))
    assert found.compared >= 40
    if network.target_ids is None:
        assert found.lengths.keys() >= {0, 1, 2, 3, 4}


def test_a_single_request_too():
    network = HEADS["three-layers"]
    (alone,) = asked(40)[2:3]
    found = planted_run([alone], chains(network), planting, 4, TARGET, reference=SlowToy(network))
    assert found.compared >= 8


def test_sampled_drafts_too():
    network = HEADS["final"]
    build_one = chains(network, sampled=True)

    def compared(pool, _):
        return Compared(build_one(pool), build_one, TARGET, SlowToy(network))

    rows, _, used = decode_packed(asked(24, 0.9), compared, REJECTION, 3, TARGET)
    assert used.compared >= 40
    assert any(sum(row.trace.steps.accepted) for row in rows)


@pytest.mark.parametrize("mutant", OFF)
def test_a_refill_that_is_off_is_caught_although_the_output_stays_right(mutant):
    made = chains(HEADS["final"], kind=mutant)
    planted_run(asked(12), made, planting, 4, TARGET, compare=False)
    with pytest.raises(AssertionError):
        planted_run(asked(12), made, planting, 4, TARGET)


class OwnToken(FeatureDrafter):
    """Pairs every slot with the token at its place instead of the next one."""

    def _refill(self, new, taps):
        tokens = [[int(one.row.tokens[-1 if one.start else 0]), *one.tokens[:-1]] for one in new]
        shifted = [replace(one, tokens=line) for one, line in zip(new, tokens, strict=True)]
        super()._refill(shifted, taps)


class LateDrafts(FeatureDrafter):
    """Places drafted slots where their tokens are."""

    def __init__(self, head, growth, context):
        super().__init__(head, growth, context)
        forward = head.forward

        def late(batch, hidden, *, fresh):
            positions = batch.positions + (not fresh)
            return forward(replace(batch, positions=positions), hidden, fresh=fresh)

        head.forward = late


@pytest.mark.parametrize("mutant", [OwnToken, LateDrafts])
def test_the_definition_catches_what_a_rebuilt_drafter_does_as_well(mutant):
    made = chains(HEADS["final"], kind=mutant)
    planted_run(asked(16), made, planting, 4, TARGET)
    with pytest.raises(AssertionError):
        planted_run(asked(16), made, planting, 4, TARGET, reference=SlowToy(HEADS["final"]))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_k_drafts_cost_k_calls_and_one_draft_no_second_one(k):
    calls = []

    def counted(pool, _):
        made = chains(HEADS["final"])(pool)
        forward = made._head.forward
        made._head.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return made

    (row,), _, _ = decode_packed(asked(30, prompts=[[3, 1, 4]]), counted, GREEDY, k)
    steps = row.trace.steps
    # The prompt; then per step its drafts behind the first, and the refill that carries the first.
    # The last step is not refilled: nothing follows it.
    assert sum(steps.committed) == 29
    assert len(calls) == 1 + sum(max(v, 1) for v in steps.verified) - 1


def test_a10_rows_of_a_batch_equal_their_own_runs():
    made = chains(HEADS["three-layers"], sampled=True)
    requests = asked(20, 0.9)

    def run(some):
        rows, _, _ = decode_packed(some, lambda pool, _: made(pool), REJECTION, 3)
        return {r.request.key.item: (r.trace.output_ids, r.trace.steps.accepted) for r in rows}

    alone = {}
    for one in requests:
        alone |= run([one])
    assert run(requests) == alone
    assert any(sum(accepted) for _, accepted in alone.values())


def test_a8_nothing_is_drafted_behind_the_heads_context():
    # CASES A8: target 16, head 8, K 3; prompts of 10 and of 6 tokens, 6 new ones.
    requests = [
        request(prompt, 6, item=item, context=16)
        for item, prompt in {"long": list(range(10)), "short": list(range(6))}.items()
    ]
    found = planted_run(requests, chains(HEADS["final"], context=8), planting, 3, TARGET)
    long, short = (row.trace.steps for row in found.rows)
    assert long.verified == [0] * 5
    # The very last token needs no draft anyway.
    assert long.short_draft == [ShortDraft.DRAFT_CONTEXT] * 4 + [ShortDraft.LIMIT]
    lengths = [7 + sum(short.committed[:step]) for step in range(len(short.committed))]
    assert short.verified[0] == 1
    for length, verified in zip(lengths, short.verified, strict=True):
        assert verified == max(0, min(3, 8 - length))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_e3_tokens_outside_the_heads_vocabulary_are_never_drafted_but_come_out(temperature):
    drafted = []

    class Kept(FeatureDrafter):
        def propose(self, rows, budget):
            draft = super().propose(rows, budget)
            drafted.extend(draft.tree.ids[draft.tree.valid()].tolist())
            return draft

    def made(pool, _):
        return chains(HEADS["few-tokens"], sampled=True, kind=Kept)(pool)

    rows, _, _ = decode_packed(asked(24, temperature), made, REJECTION, 3)
    assert set(drafted) <= set(FEW.tolist())
    outputs = {row.request.key.item: row.trace.output_ids for row in rows}
    assert {token for ids in outputs.values() for token in ids} - set(FEW.tolist())
    if temperature == 0:
        assert outputs == plain_outputs(asked(24))


def test_hidden_states_of_other_prompts_are_refused():
    pool = KVPool(2, 16, torch.float32, CPU)
    made = chains(HEADS["final"])(pool)
    row = sequence(request([3, 1, 4], 4), pool)
    row.append(5)
    with pytest.raises(ValueError, match="hidden states of 5 tokens for prompts of 3"):
        made.admit([row], {Tap(-1, "final"): torch.ones(5, 32)})


def test_a_neighbour_that_ends_with_its_first_token_takes_its_hidden_states_along():
    first = plain_outputs(asked(1))
    stops = Stops((first["item-0"][0],))
    requests = [replace(one, stops=stops) for one in asked(12)]
    made, network = chains(HEADS["final"]), HEADS["final"]

    def compared(pool, _):
        return Compared(made(pool), made, TARGET, SlowToy(network))

    rows, _, used = decode_packed(requests, compared, GREEDY, 3, TARGET)
    assert len(rows[0].trace.output_ids) == 1
    assert used.compared >= 10


def test_release_forgets_what_was_carried():
    pool = KVPool(1, 16, torch.float32, CPU)
    made = chains(HEADS["final"])(pool)
    row = sequence(request([3, 1, 4], 4), pool)
    row.append(5)
    made.admit([row], {Tap(-1, "final"): torch.ones(3, 32)})
    assert made.propose([row], [2]).tree.counts == (2,)
    made.release([row])
    assert made.propose([row], [2]).tree.counts == (0,)
