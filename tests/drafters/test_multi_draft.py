"""Several models draft for one request: the KV of each after any accepted path, exact steps."""

import random

import pytest
import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.timing import TickRecorder
from specbench.drafters.multi_draft import MultiDraftDrafter
from specbench.drafters.none import NoDrafter
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.target_match import RULE as TARGET_MATCH
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.rebuilt import CheckedDraft, Rebuilt, close_to
from tests.models.families import VOCABULARY, build
from tests.oracle import from_outputs
from tests.planting import Steered, require_every_length
from tests.tables import run
from tests.toys import CycModel, cyc_output, request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

K = 3
CPU = torch.device("cpu")


def drafter(pool, weights, contexts=(), sampled=True, checked=False, rebuilt=False):
    models = [own_draft(pool, one, f"draft:{i}") for i, one in enumerate(weights)]
    contexts = contexts or [96] * len(models)
    made = MultiDraftDrafter(models, VOCABULARY, contexts, sampled)
    if checked:
        made = CheckedDraft(made, models)
    return Rebuilt(made, lambda own: drafter(own, weights, contexts, sampled)) if rebuilt else made


def drafts(count=3):
    return [close_to(build("llama"), seed) for seed in range(count)]


def outputs(rows):
    return {row.request.key.item: row.trace.output_ids for row in rows}


def plain(requests):
    return outputs(decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)[0])


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize(
    ("rule", "temperature"),
    [(GREEDY, 0.0), (MULTI_ROUND, 0.9), (TRAVERSAL, 0.9), (TARGET_MATCH, 0.9)],
)
def test_after_every_step_all_drafts_are_as_if_they_had_just_seen_the_prefix(
    rule, temperature, sampled
):
    weights = drafts()
    rows, _, used = decode_packed(
        asked(16, temperature),
        lambda pool, _: drafter(pool, weights, sampled=sampled, checked=True, rebuilt=True),
        rule,
        K,
    )
    lengths = {a for row in rows for a in row.trace.steps.accepted}
    assert lengths >= {0, 1}
    assert used.compared >= 5
    assert used.checks >= 3 * 10
    if rule in (GREEDY, TARGET_MATCH):
        assert outputs(rows) == plain(asked(16, temperature))


class RightUpTo:
    """Steering: every model is right up to a depth of its own, and then wrong in its own way.

    A model is told by how many chains began before its own in this step.
    """

    def __init__(self, tokens, depths):
        self._tokens, self._depths = list(tokens), depths
        self._begun = -1

    def row(self, path, logits):
        return logits

    def token(self, path):
        place = len(path)
        self._begun += place == 0
        if place >= len(self._tokens):
            return None
        model = self._begun % len(self._depths)
        right = place < self._depths[model]
        return self._tokens[place] if right else (self._tokens[place] + 1 + model) % VOCABULARY


def test_every_accepted_length_occurs_often_and_leaves_every_draft_right():
    requests = asked(60, prompts=[[(7 * i + j) % 64 for j in range(1 + i % 3)] for i in range(8)])
    expected = plain(requests)
    continuation, chance = from_outputs(expected), random.Random(0)
    weights = [build("llama", seed=seed) for seed in (1, 2)]

    def steering(row, budget):
        room = max(budget, 0)
        depths = [depth := chance.randint(0, room), chance.randint(0, depth)]
        chance.shuffle(depths)
        return RightUpTo(continuation(row, room), depths)

    rows, target, used = decode_packed(
        requests,
        lambda pool, _: Steered(drafter(pool, weights, sampled=False, checked=True), steering),
        GREEDY,
        K,
        check=True,
    )
    assert outputs(rows) == expected
    require_every_length(rows, K)
    steps = sum(len(row.trace.steps) for row in rows)
    assert target.checks == steps
    assert used.inner.checks == 2 * (steps - len(rows))


def cyc_drafts(pool, contexts=(64, 64)):
    """The first is wrong behind every fourth token, the second behind every third."""
    models = [CycModel(f"d{i}", pool, wrong_every=n) for i, n in enumerate((4, 3))]
    return MultiDraftDrafter(models, 17, contexts)


def decode_cyc(asked_for, k, drafter_of=cyc_drafts, batch=False):
    finished = []
    for group in [asked_for] if batch else [[one] for one in asked_for]:
        pool = KVPool(len(group), 64, torch.float32, CPU)
        target = PackedTarget(CycModel("target", pool), CPU)
        rows = [sequence(one, pool) for one in group]
        run(DecodeLoop(target, drafter_of(pool), MULTI_ROUND, k, TickRecorder(lambda: 0)), rows)
        finished += rows
    return finished


def counts(row):
    return list(zip(row.trace.steps.verified, row.trace.steps.accepted, strict=True))


def test_a6_by_hand():
    (row,) = decode_cyc([request([3, 1, 4], 12)], 3)
    assert row.trace.output_ids == cyc_output([3, 1, 4], 12)
    # Behind 4 tokens the first model is wrong at once, the second behind 6: two chains of 3, two
    # right. Behind 7 they agree on one, then the first is wrong, and behind 9 the second: 5 nodes,
    # two right. Behind 10 both are wrong behind 12, in the same way: one chain, two right. Behind
    # 13 one token may be drafted, and both are right.
    assert counts(row) == [(6, 2), (5, 2), (3, 2), (1, 1)]
    assert row.trace.steps.proposed == [6, 6, 6, 2]
    assert row.trace.steps.depths == [3, 3, 3, 1]


def test_a_draft_that_reads_a_short_cache_keeps_the_text_and_loses_acceptance():
    def blind(pool):
        models = [CycModel(f"d{i}", pool, n, hide=2) for i, n in enumerate((4, 3))]
        return MultiDraftDrafter(models, 17, [64, 64])

    (right,) = decode_cyc([request([3, 1, 4], 40)], 3)
    (row,) = decode_cyc([request([3, 1, 4], 40)], 3, blind)
    assert row.trace.output_ids == right.trace.output_ids == cyc_output([3, 1, 4], 40)
    assert sum(row.trace.steps.accepted) < 0.7 * sum(right.trace.steps.accepted)


@pytest.mark.parametrize("contexts", [(8, 8), (8, 64)])
def test_a8_drafts_beyond_their_context_leave_drafting_to_the_others(contexts):
    asked_for = [request([1] * 10, 6, context=16), request([1] * 6, 9, context=16)]
    long, short = decode_cyc(asked_for, 3, lambda pool: cyc_drafts(pool, contexts))
    assert long.trace.output_ids == cyc_output([1] * 10, 6)
    assert short.trace.output_ids == cyc_output([1] * 6, 9)
    if contexts == (8, 8):
        assert long.trace.steps.verified == [0] * 5
        assert long.trace.steps.short_draft == [ShortDraft.DRAFT_CONTEXT] * 4 + [ShortDraft.LIMIT]
        assert short.trace.steps.depths[0] == 1
        assert sum(short.trace.steps.depths) == 1
    else:
        # The second model goes on alone, with one chain.
        assert long.trace.steps.proposed == long.trace.steps.verified
        assert long.trace.steps.verified[0] == 3
        assert short.trace.steps.proposed[0] == 4


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a10_every_row_equals_its_own_batch_of_one(k):
    asked_for = [request(prompt, 20) for prompt in ([3, 1, 4], [5], [2] * 5)]
    alone = decode_cyc(asked_for, k)
    together = decode_cyc(asked_for, k, batch=True)
    assert [row.trace.output_ids for row in alone] == [
        cyc_output(one.token_ids, 20) for one in asked_for
    ]
    assert [row.trace.output_ids for row in together] == [row.trace.output_ids for row in alone]
    assert [counts(row) for row in together] == [counts(row) for row in alone]
