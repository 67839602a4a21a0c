"""The whole loop on the integer toy model: KV, positions, counts (CASES A6, A7, A8, A10)."""

import pytest
import torch

from specbench.core.trace import Finish, ShortDraft
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.timing import TickRecorder
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.ngram import NgramDrafter
from specbench.drafters.none import NoDrafter
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from tests.toys import VOCABULARY, CycModel, cyc_output, request, sequence

A6_OUTPUT = [11, 6, 13, 10, 4, 9, 2, 5, 11, 6, 13, 10]


def decode(asked, drafter_of, k, *, batch=False):
    """Decode requests one by one, or all in one batch; returns the sequences."""
    finished = []
    groups = [asked] if batch else [[one] for one in asked]
    for group in groups:
        pool = KVPool(len(group), 64, torch.float32, torch.device("cpu"))
        target = PackedTarget(CycModel("target", pool), torch.device("cpu"))
        loop = DecodeLoop(target, drafter_of(pool), GREEDY, k, TickRecorder(lambda: 0))
        rows = [sequence(one, pool) for one in group]
        loop.prefill(rows)
        while going := [row for row in rows if row.finish is None]:
            loop.step(going)
        finished += rows
    return finished


def cyc_d(pool, hide=0, context=64):
    return DraftModelDrafter(CycModel("draft", pool, wrong_every=4, hide=hide), VOCABULARY, context)


def counts(row):
    return list(zip(row.trace.steps.verified, row.trace.steps.accepted, strict=True))


def test_plain_matches_the_definition():
    (row,) = decode([request([3, 1, 4], 12)], lambda pool: NoDrafter(), 0)
    assert row.trace.output_ids == A6_OUTPUT == cyc_output([3, 1, 4], 12)
    assert row.trace.finish is Finish.LENGTH
    assert row.trace.steps.committed == [1] * 11


def test_a6_trace_is_exact():
    (row,) = decode([request([3, 1, 4], 12)], cyc_d, 3)
    assert row.trace.output_ids == A6_OUTPUT
    assert counts(row) == [(3, 0), (3, 3), (3, 3), (1, 1)]
    assert row.trace.steps.committed == [1, 4, 4, 2]
    assert row.trace.steps.judged == [3, 3, 3, 1]


def test_a_draft_that_reads_a_short_cache_keeps_the_text_and_loses_acceptance():
    (row,) = decode([request([3, 1, 4], 12)], lambda pool: cyc_d(pool, hide=2), 3)
    assert row.trace.output_ids == A6_OUTPUT
    assert sum(row.trace.steps.accepted) < 7


def test_a7_drafts_are_clamped_at_the_context_end():
    rows = decode([request([1] * 14, 99, context=16), request([1] * 15, 99, context=16)], cyc_d, 5)
    assert [len(r.trace.output_ids) for r in rows] == [2, 1]
    assert [sum(r.trace.steps.verified) for r in rows] == [0, 0]
    assert all(r.trace.finish is Finish.LENGTH for r in rows)


def test_a8_short_draft_context_falls_back_to_plain():
    def shy(pool):
        return cyc_d(pool, context=8)

    long, short = decode(
        [request([1] * 10, 6, context=16), request([1] * 6, 9, context=16)], shy, 3
    )
    assert long.trace.output_ids == cyc_output([1] * 10, 6)
    assert long.trace.steps.verified == [0] * 5
    assert long.trace.steps.short_draft == [ShortDraft.DRAFT_CONTEXT] * 4 + [ShortDraft.LIMIT]
    assert short.trace.output_ids == cyc_output([1] * 6, 9)
    # One position is left after prompt and first token (7 of 8), none afterwards.
    assert short.trace.steps.verified[0] == 1
    assert sum(short.trace.steps.verified) == 1


@pytest.mark.parametrize("drafter_of", [cyc_d, lambda pool: NgramDrafter(1, 3)])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_a10_every_row_equals_its_own_batch_of_one(drafter_of, k):
    asked = [request(p, 20) for p in ([3, 1, 4], [5], [2, 2, 2, 2, 2])]
    alone = decode(asked, drafter_of, k)
    together = decode(asked, drafter_of, k, batch=True)
    assert [r.trace.output_ids for r in alone] == [cyc_output(a.token_ids, 20) for a in asked]
    assert [r.trace.output_ids for r in together] == [r.trace.output_ids for r in alone]
    assert [counts(r) for r in together] == [counts(r) for r in alone]


def test_speculation_configured_with_k_zero_drafts_nothing_and_says_so():
    (row,) = decode([request([3, 1, 4], 12)], lambda pool: NgramDrafter(), 0)
    assert row.trace.output_ids == A6_OUTPUT
    assert row.trace.steps.verified == [0] * 11
    assert row.trace.steps.short_draft == [ShortDraft.OFF] * 11
