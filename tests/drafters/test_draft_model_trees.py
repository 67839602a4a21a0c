"""Trees of a second model: its KV after any accepted path, every accepted length, what it costs."""

from collections import Counter

import pytest
import torch

from specbench.decoding.shapes.named import named
from specbench.decoding.shapes.parse import parse_shape
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.drafters.none import NoDrafter
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.target_match import RULE as TARGET_MATCH
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.rebuilt import CheckedDraft, Rebuilt, close_to
from tests.models.families import VOCABULARY, build, reference
from tests.oracle import from_outputs
from tests.planting import Steered, planting, require_every_length

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS_OF = DraftRows(VOCABULARY)
GROWTHS = {
    "chain": (Chain(ROWS_OF, True), 1),
    "2x2x1": (Static(parse_shape("2x2x1", "a"), ROWS_OF, True), 2),
    "eagle_25": (Static(named("eagle_25"), ROWS_OF, True), 2),
    "greedy 3x2x2": (Static(parse_shape("3x2x2", "a"), ROWS_OF, False), 2),
    "dynamic": (Dynamic(20, 3, ROWS_OF), 2),
    "pruned": (Dynamic(8, 4, ROWS_OF), 1),
}
"""Name -> growth, and how many candidates of a node are likely to be drafted."""
K = 3


def drafter(pool, growth, weights, checked=False, rebuilt=False):
    model = own_draft(pool, weights)
    made = DraftModelDrafter(model, VOCABULARY, 96, growth=growth)
    if checked:
        made = CheckedDraft(made, [model])
    return Rebuilt(made, lambda own: drafter(own, growth, weights)) if rebuilt else made


def outputs(rows):
    return {row.request.key.item: row.trace.output_ids for row in rows}


def plain(requests):
    return outputs(decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)[0])


@pytest.mark.parametrize("name", GROWTHS)
@pytest.mark.parametrize(
    ("rule", "temperature"),
    [(GREEDY, 0.0), (MULTI_ROUND, 0.9), (TRAVERSAL, 0.9), (TARGET_MATCH, 0.9)],
)
def test_after_every_step_the_drafter_is_as_if_it_had_just_seen_the_prefix(name, rule, temperature):
    weights = close_to(build("llama"))
    rows, _, used = decode_packed(
        asked(16, temperature),
        lambda pool, _: drafter(pool, GROWTHS[name][0], weights, checked=True, rebuilt=True),
        rule,
        K,
    )
    lengths = {a for row in rows for a in row.trace.steps.accepted}
    assert lengths >= {0, 1, 2}
    assert used.compared >= 5
    assert used.checks >= 20
    if rule in (GREEDY, TARGET_MATCH):
        assert outputs(rows) == plain(asked(16, temperature))


@pytest.mark.parametrize("name", GROWTHS)
def test_every_accepted_length_occurs_often_and_leaves_everything_right(name):
    growth, breadth = GROWTHS[name]
    requests = asked(60, prompts=[[(7 * i + j) % 64 for j in range(1 + i % 3)] for i in range(8)])
    expected = plain(requests)
    weights = build("llama", seed=1)

    def steered(pool, _):
        inner = drafter(pool, growth, weights, checked=True)
        return Steered(inner, planting(from_outputs(expected), breadth))

    rows, target, used = decode_packed(requests, steered, GREEDY, K, check=True)
    assert outputs(rows) == expected
    require_every_length(rows, K)
    steps = sum(len(row.trace.steps) for row in rows)
    assert target.checks == steps
    # The last step of a request is not refilled: nothing follows it.
    assert used.inner.checks == steps - len(rows)


@pytest.mark.parametrize("name", ["2x2x1", "eagle_25"])
def test_laws_are_those_of_a_model_that_sees_committed_tokens_and_path_alone(name):
    weights = close_to(build("llama"))
    alone = reference(close_to(build("llama")))
    seen = Counter()

    class Watched(DraftModelDrafter):
        def propose(self, rows, budget):
            draft = super().propose(rows, budget)
            ids, parents = draft.tree.ids.tolist(), draft.tree.parents.tolist()
            for b, row in enumerate(rows):
                paths = {-1: []}
                for node in range(draft.tree.counts[b]):
                    paths[node] = [*paths[parents[b][node]], ids[b][node]]
                    before = [*row.tokens.tolist(), *paths[parents[b][node]]]
                    law = torch.softmax(alone(before)[-1] / 0.9, 0)
                    got = draft.laws.rows[b, draft.trials.law[b, node]]
                    torch.testing.assert_close(got, law, atol=1e-4, rtol=1e-4)
                    seen[len(paths[node])] += 1
            return draft

    decode_packed(
        asked(8, 0.9, prompts=[[3, 1, 4], [9]]),
        lambda pool, _: Watched(own_draft(pool, weights), VOCABULARY, 96, growth=GROWTHS[name][0]),
        MULTI_ROUND,
        K,
    )
    assert set(seen) == {1, 2, 3}


@pytest.mark.parametrize("name", GROWTHS)
def test_a_tree_costs_as_many_calls_as_it_has_levels(name):
    calls = []

    def counted(pool, _):
        model = own_draft(pool, close_to(build("llama")))
        forward = model.forward
        model.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return DraftModelDrafter(model, VOCABULARY, 96, growth=GROWTHS[name][0])

    (row,), _, _ = decode_packed(asked(30, prompts=[[3, 1, 4]]), counted, GREEDY, K)
    # The prefill; then per step the levels after the first, and the refill that carries the first.
    # The last step is not refilled.
    done = [1, *row.trace.steps.committed]
    budgets = [min(K, 30 - sum(done[: i + 1]) - 1) for i in range(len(row.trace.steps))]
    assert len(calls) == 1 + sum(max(budget, 1) for budget in budgets) - 1


def test_a_draft_equal_to_the_target_is_accepted_to_the_leaf():
    for name in ("2x2x1", "eagle_25"):
        rows, _, _ = decode_packed(
            asked(20, 0.0),
            lambda pool, _, name=name: drafter(pool, GROWTHS[name][0], build("llama")),
            GREEDY,
            K,
        )
        assert all(row.trace.steps.accepted == row.trace.steps.depths for row in rows)
