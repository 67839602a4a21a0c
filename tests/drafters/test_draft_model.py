"""A second model as drafter: refill, number of calls, vocabularies of other widths, types."""

import pytest
import torch

from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.none import NoDrafter
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.rebuilt import Rebuilt, close_to
from tests.models.families import VOCABULARY, build

pytestmark = pytest.mark.usefixtures("one_thread")

RULES = [(GREEDY, 0.0), (REJECTION, 0.0), (REJECTION, 0.8), (TARGET_MATCH, 0.8)]


def drafter(pool, model, context=96, sampled=True, padding=None):
    return DraftModelDrafter(own_draft(pool, model, padding=padding), VOCABULARY, context, sampled)


def outputs(rows):
    return [row.trace.output_ids for row in rows]


def plain(requests):
    return outputs(decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)[0])


def close_draft():
    return close_to(build("llama"))


@pytest.mark.parametrize(("rule", "temperature"), RULES)
def test_refill_leaves_the_drafter_as_if_rebuilt_from_the_prefix(rule, temperature):
    weights = close_draft()

    def rebuilt(pool, _):
        return Rebuilt(drafter(pool, weights), lambda own: drafter(own, weights))

    rows, _, used = decode_packed(asked(24, temperature), rebuilt, rule, 3)
    lengths = {a for row in rows for a in row.trace.steps.accepted}
    assert lengths >= {0, 1, 2, 3}
    assert used.compared >= 10


@pytest.mark.parametrize("k", [1, 2, 4])
def test_k_drafts_cost_k_calls(k):
    calls = []

    def counted(pool, _):
        model = own_draft(pool, close_draft())
        forward = model.forward
        model.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return DraftModelDrafter(model, VOCABULARY, 96)

    (row,), _, _ = decode_packed(asked(30, prompts=[[3, 1, 4]]), counted, GREEDY, k)
    steps = row.trace.steps
    # The prefill; then per step its drafts after the first, and the refill that carries the first.
    # The last step is not refilled: nothing follows it.
    last = sum(steps.committed[:-1]) + 1
    assert last + steps.committed[-1] == 30
    assert len(calls) == 1 + sum(max(v, 1) for v in steps.verified) - 1


@pytest.mark.parametrize(("rule", "temperature"), RULES)
def test_a_draft_equal_to_the_target_is_always_accepted(rule, temperature):
    rows, _, _ = decode_packed(
        asked(20, temperature), lambda pool, _: drafter(pool, build("llama")), rule, 4
    )
    if rule is not TARGET_MATCH:
        assert all(row.trace.steps.accepted == row.trace.steps.verified for row in rows)
    if rule is not REJECTION or temperature == 0:
        assert outputs(rows) == plain(asked(20, temperature))


@pytest.mark.parametrize("rows_of_draft", [VOCABULARY - 8, VOCABULARY + 8])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_e1_draft_vocabularies_of_another_width(rows_of_draft, temperature):
    model = build("llama", vocab_size=rows_of_draft)
    proposed = []

    class Watched(DraftModelDrafter):
        def propose(self, rows, budget):
            draft = super().propose(rows, budget)
            proposed.extend(draft.tree.ids[draft.tree.valid()].tolist())
            if hasattr(draft.laws, "rows"):
                assert draft.laws.rows.shape[2] == VOCABULARY
            return draft

    requests = [r for r in asked(20, temperature) if max(r.token_ids) < rows_of_draft]
    mask = torch.zeros(rows_of_draft, dtype=torch.bool)
    mask[VOCABULARY:] = True
    rows, _, _ = decode_packed(
        requests,
        lambda pool, _: Watched(own_draft(pool, model, padding=mask), VOCABULARY, 96),
        TARGET_MATCH,
        3,
        model=_without_padding_rows(rows_of_draft),
    )
    assert proposed
    assert max(proposed) < min(rows_of_draft, VOCABULARY)
    assert all(len(row.trace.output_ids) == 20 for row in rows)


def _without_padding_rows(limit):
    """A target that never emits ids the draft has no row for."""
    model = build("llama")
    if limit < VOCABULARY:
        bias = torch.zeros(VOCABULARY)
        bias[limit:] = -1e9
        model.lm_head.bias = torch.nn.Parameter(bias, requires_grad=False)
    return model


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_e1_padding_rows_with_huge_logits_are_never_drafted_nor_emitted(temperature):
    def loud():
        model = build("llama")
        bias = torch.zeros(VOCABULARY)
        bias[60:] = 100.0
        model.lm_head.bias = torch.nn.Parameter(bias, requires_grad=False)
        return model

    mask = torch.arange(VOCABULARY) >= 60

    def padded(pool, packed):
        packed.padding = mask
        return drafter(pool, loud(), padding=mask)

    prompts = [[3, 1, 4], [5, 9]]
    rows, _, _ = decode_packed(asked(20, temperature, prompts), padded, REJECTION, 3, loud())
    assert max(max(ids) for ids in outputs(rows)) < 60
    # Both sides are masked and renormalised alike, so equal models agree.
    assert all(row.trace.steps.accepted == row.trace.steps.verified for row in rows)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_draft_of_another_type_keeps_its_own_kv(temperature):
    rows, _, _ = decode_packed(
        asked(16, temperature),
        lambda pool, _: drafter(pool, build("llama", dtype=torch.bfloat16)),
        TARGET_MATCH,
        3,
    )
    assert outputs(rows) == plain(asked(16, temperature))
    assert sum(sum(row.trace.steps.accepted) for row in rows) > 0


def test_a_greedy_draft_has_one_hot_laws_and_fewer_columns():
    rows, _, _ = decode_packed(
        asked(16, 0.8), lambda pool, _: drafter(pool, close_draft(), sampled=False), REJECTION, 3
    )
    for row in rows:
        evidence = row.trace.evidence
        pairs = zip(evidence.overlap, evidence.draft_top_target, evidence.drafted, strict=True)
        assert all(o == pytest.approx(t, abs=1e-6) for o, t, d in pairs if d)
