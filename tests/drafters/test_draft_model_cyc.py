"""Trees on the integer toy: exact steps, short draft contexts, batches (CASES A6, A8, A10)."""

import pytest
import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.shapes.parse import parse_shape
from specbench.decoding.timing import TickRecorder
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from tests.drafters.grown import best_paths, by_rank
from tests.tables import run
from tests.toys import VOCABULARY, CycModel, cyc_output, request, sequence

A6_OUTPUT = [11, 6, 13, 10, 4, 9, 2, 5, 11, 6, 13, 10]
ROWS_OF = DraftRows(VOCABULARY)
SHAPES = ["1x1x1", "2x1x1", "8x1x1", "9x2x1", "3x3x3"]
DYNAMIC = [(6, 2), (20, 4), (40, 17)]
PROMPTS = [[3, 1, 4], [5], [2, 2, 2, 2, 2]]


def static(text):
    return Static(parse_shape(text, "a"), ROWS_OF, True)


def dynamic(sizes):
    return Dynamic(*sizes, ROWS_OF)


GROWTHS = [*map(static, SHAPES), *map(dynamic, DYNAMIC)]


def decode(asked, growth, k, *, batch=False, hide=0, context=64, rule=GREEDY):
    """Decode with CYC-D as draft, one by one or in one batch; the sequences, drafts and pools."""
    finished, pools = [], []
    for group in [asked] if batch else [[one] for one in asked]:
        pool = KVPool(len(group), 96, torch.float32, torch.device("cpu"))
        target = PackedTarget(CycModel("target", pool), torch.device("cpu"))
        draft = CycModel("draft", pool, wrong_every=4, hide=hide)
        drafter = DraftModelDrafter(draft, VOCABULARY, context, growth=growth)
        rows = [sequence(one, pool) for one in group]
        run(DecodeLoop(target, drafter, rule, k, TickRecorder(lambda: 0)), rows)
        finished += rows
        pools.append(pool)
    return finished, pools


def counts(row):
    return list(zip(row.trace.steps.verified, row.trace.steps.accepted, strict=True))


def draft_row(tokens):
    """CYC-D's logits by its definition."""
    answer = (sum(tokens) + len(tokens) + (len(tokens) % 4 == 0)) % VOCABULARY
    return [10.0 * (token == answer) for token in range(VOCABULARY)]


def simulated(prompt, count, k, paths_of):
    """(verified, accepted) per step by walking down trees of paths; A6 without any cache."""
    output = cyc_output(prompt, count)
    done, steps = 1, []
    while done < count:
        before = [*prompt, *output[:done]]
        budget = min(k, count - done - 1)
        row = lambda path, before=before: draft_row([*before, *path])  # noqa: E731
        paths = paths_of(row, budget) if budget else []
        accepted = 0
        while tuple(output[done : done + accepted + 1]) in paths and accepted < budget:
            accepted += 1
        steps.append((len(paths), accepted))
        done += accepted + 1
    return steps


def static_paths(text):
    ranks = parse_shape(text, "a").paths()
    return lambda row, depth: [by_rank(row, path) for path in ranks if len(path) <= depth]


def dynamic_paths(sizes):
    return lambda row, depth: best_paths(row, *sizes, depth)[0]


def test_a6_by_hand():
    # Only drafts behind a multiple of 4 tokens are wrong, and then the right token is the one
    # below: of rank 1 + itself. Behind [3 1 4 11] it is 6, of rank 7: the eighth candidate.
    (row,), _ = decode([request([3, 1, 4], 12)], static("8x1x1"), 3)
    assert row.trace.output_ids == A6_OUTPUT
    assert counts(row) == [(24, 3), (24, 0), (24, 3), (8, 1)]
    assert row.trace.steps.committed == [4, 1, 4, 2]


@pytest.mark.parametrize("rule", [GREEDY, MULTI_ROUND])
@pytest.mark.parametrize(
    ("growth", "paths_of"),
    [
        *((static(text), static_paths(text)) for text in SHAPES),
        *((dynamic(sizes), dynamic_paths(sizes)) for sizes in DYNAMIC),
    ],
)
def test_a6_every_step_is_the_simulated_one(growth, paths_of, rule):
    for prompt in PROMPTS:
        (row,), _ = decode([request(prompt, 24)], growth, 3, rule=rule)
        assert row.trace.output_ids == cyc_output(prompt, 24)
        assert counts(row) == simulated(prompt, 24, 3, paths_of)


@pytest.mark.parametrize("growth", GROWTHS)
def test_the_drafts_kv_holds_the_committed_tokens(growth):
    # A request ends without a refill; before its last step the draft held all that was committed.
    (row,), (pool,) = decode([request([3, 1, 4], 30)], growth, 3)
    length = pool.view("draft", row.slab).length
    assert length == row.length - row.trace.steps.committed[-1]
    keys, _ = pool.layer("draft", 0)
    assert keys[row.slab, 0, :length, 0].long().tolist() == row.tokens[:length].tolist()


@pytest.mark.parametrize("growth", GROWTHS)
def test_a_draft_that_reads_a_short_cache_keeps_the_text_and_loses_acceptance(growth):
    (right,), _ = decode([request([3, 1, 4], 40)], growth, 3)
    (row,), _ = decode([request([3, 1, 4], 40)], growth, 3, hide=2)
    assert row.trace.output_ids == right.trace.output_ids == cyc_output([3, 1, 4], 40)
    assert sum(row.trace.steps.accepted) < 0.7 * sum(right.trace.steps.accepted)


@pytest.mark.parametrize("growth", GROWTHS)
def test_a8_short_draft_context_falls_back_to_plain(growth):
    asked = [request([1] * 10, 6, context=16), request([1] * 6, 9, context=16)]
    (long, short), _ = decode(asked, growth, 3, context=8)
    assert long.trace.output_ids == cyc_output([1] * 10, 6)
    assert long.trace.steps.verified == [0] * 5
    assert long.trace.steps.short_draft == [ShortDraft.DRAFT_CONTEXT] * 4 + [ShortDraft.LIMIT]
    assert short.trace.output_ids == cyc_output([1] * 6, 9)
    # One position is left after prompt and first token (7 of 8), none afterwards.
    assert short.trace.steps.depths[0] == 1
    assert sum(short.trace.steps.depths) == 1


@pytest.mark.parametrize("growth", GROWTHS)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_a10_every_row_equals_its_own_batch_of_one(growth, k):
    asked = [request(prompt, 20) for prompt in PROMPTS]
    alone, _ = decode(asked, growth, k)
    together, _ = decode(asked, growth, k, batch=True)
    assert [row.trace.output_ids for row in alone] == [cyc_output(p, 20) for p in PROMPTS]
    assert [row.trace.output_ids for row in together] == [row.trace.output_ids for row in alone]
    assert [counts(row) for row in together] == [counts(row) for row in alone]
