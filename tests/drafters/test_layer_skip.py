"""Early exit: shares the target's KV, and leaves it as a fresh prefill would."""

import pytest
import torch

from specbench.decoding.shapes.parse import parse_shape
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.drafters.layer_skip import LayerSkipDrafter
from specbench.drafters.none import NoDrafter
from specbench.errors import UsageError
from specbench.models.early_exit import early_exit
from specbench.models.packed import PackedModel
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.build_contexts import context_of
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.rebuilt import Rebuilt
from tests.models.families import VOCABULARY, build
from tests.oracle import from_outputs
from tests.planting import Steered, planting, require_every_length

pytestmark = pytest.mark.usefixtures("one_thread")


ROWS_OF = DraftRows(VOCABULARY)
GROWTHS = {
    "chain": (Chain(ROWS_OF, True), 1, 8),
    "2x2x1": (Static(parse_shape("2x2x1", "a"), ROWS_OF, True), 2, 8),
    "greedy 3x2x2": (Static(parse_shape("3x2x2", "a"), ROWS_OF, False), 2, 8),
    "dynamic": (Dynamic(20, 3, ROWS_OF), 2, 8),
    # It processes more nodes than it verifies, so that some scratch rows stay behind.
    "pruned": (Dynamic(9, 5, ROWS_OF), 1, 24),
}
"""Name -> growth, how many candidates of a node are likely to be drafted, and how many requests
meet every accepted length of a whole tree often: small trees are seldom deep."""
K = 3


def drafter_of(layers, calls=None, growth=None):
    def make(pool, target):
        model = PackedModel(early_exit(target.model, layers), "exit")
        pool.alias("exit", "target", layers)
        model.use(pool)
        if calls is not None:
            forward = model.forward
            model.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return LayerSkipDrafter(model, VOCABULARY, growth=growth)

    return make


def with_identity_layers(first):
    """A Llama whose layers from ``first`` on add nothing to the residual stream."""
    model = build("llama")
    for layer in model.model.layers[first:]:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    return model


@pytest.mark.parametrize(
    ("rule", "temperature"), [(GREEDY, 0.0), (REJECTION, 0.0), (REJECTION, 0.8)]
)
def test_layers_that_do_nothing_can_be_skipped(rule, temperature):
    rows, target, _ = decode_packed(
        asked(20, temperature), drafter_of(1), rule, 3, with_identity_layers(1), check=True
    )
    assert all(row.trace.steps.accepted == row.trace.steps.verified for row in rows)
    assert target.checks > 0


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(
    ("rule", "temperature"), [(GREEDY, 0.0), (TARGET_MATCH, 0.8), (REJECTION, 0.8)]
)
def test_drafting_leaves_the_kv_of_the_target_alone(layers, rule, temperature):
    requests = asked(20, temperature)
    rows, _, _ = decode_packed(requests, drafter_of(layers), rule, 3, check=True)
    if rule is not REJECTION:
        plain, _, _ = decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)
        assert [r.trace.output_ids for r in rows] == [r.trace.output_ids for r in plain]


def outputs(rows):
    return {row.request.key.item: row.trace.output_ids for row in rows}


def first_layers(count):
    """A model of its own that is the first layers of the target, its norm and its head."""
    model = build("llama")
    model.model.layers = model.model.layers[:count]
    model.config.num_hidden_layers = count
    return model


@pytest.mark.parametrize("name", GROWTHS)
@pytest.mark.parametrize(
    ("rule", "temperature"), [(GREEDY, 0.0), (TARGET_MATCH, 0.9), (MULTI_ROUND, 0.9)]
)
def test_every_draft_is_that_of_a_model_that_has_just_seen_the_prefix(name, rule, temperature):
    """The model has KV of its own and is filled anew at every step."""
    growth = GROWTHS[name][0]
    requests = asked(12, temperature)

    def fresh(pool):
        return DraftModelDrafter(own_draft(pool, first_layers(2)), VOCABULARY, 96, growth=growth)

    rows, target, used = decode_packed(
        requests,
        lambda pool, packed: Rebuilt(drafter_of(2, growth=growth)(pool, packed), fresh),
        rule,
        K,
        check=True,
    )
    assert used.compared >= 5
    assert target.checks > 0
    if rule is not MULTI_ROUND:
        plain, _, _ = decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)
        assert outputs(rows) == outputs(plain)


@pytest.mark.parametrize("name", GROWTHS)
def test_every_accepted_length_occurs_often_and_leaves_the_target_right(name):
    growth, breadth, count = GROWTHS[name]
    prompts = [[(7 * i + j) % 64 for j in range(1 + i % 3)] for i in range(count)]
    requests = asked(60, prompts=prompts)
    plain, _, _ = decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)
    expected = outputs(plain)

    def steered(pool, packed):
        inner = drafter_of(1, growth=growth)(pool, packed)
        return Steered(inner, planting(from_outputs(expected), breadth))

    rows, target, _ = decode_packed(requests, steered, GREEDY, K, check=True)
    assert outputs(rows) == expected
    require_every_length(rows, K)
    assert target.checks == sum(len(row.trace.steps) for row in rows)


@pytest.mark.parametrize(
    ("options", "room", "growth"),
    [
        ({}, 3, {"kind": "chain", "sampling": "sampled"}),
        ({"tree": "dynamic", "nodes": 20, "top_k": 3}, 20, None),
        ({"tree": "2x1", "sampling": "greedy"}, 4, None),
    ],
)
def test_an_arm_may_ask_for_any_tree_and_that_is_recorded(options, room, growth):
    made_for = context_of()
    made = LayerSkipDrafter.build({"layers": 1, **options}, made_for)
    assert made.room(3) == room
    (noted,) = made_for.loaded
    assert (noted.weight_bytes, noted.kv_bytes) == (0, 0)
    if growth is not None:
        assert noted.facts == {"growth": growth}
    tree = options.get("tree", "chain")
    assert made.info.facts(options).tree is (tree != "chain")


@pytest.mark.parametrize("k", [1, 3])
def test_k_drafts_cost_k_calls(k):
    calls = []
    (row,), _, _ = decode_packed(asked(20, prompts=[[3, 1, 4]]), drafter_of(1, calls), GREEDY, k)
    assert len(calls) == sum(row.trace.steps.verified)


def test_an_early_exit_is_the_first_layers_norm_and_head():
    model = build("llama")
    short = build("llama")
    short.model.layers = short.model.layers[:2]
    ids = torch.tensor([[5, 6, 7]])
    exit_logits = early_exit(model, 2)(ids, use_cache=False).logits
    torch.testing.assert_close(exit_logits, short(ids, use_cache=False).logits)
    assert len(model.model.layers) == 3
    assert early_exit(model, 2).lm_head is model.lm_head


@pytest.mark.parametrize("layers", [0, 3, 4])
def test_an_exit_outside_the_target_is_refused(layers):
    with pytest.raises(UsageError, match="3 layers"):
        early_exit(build("llama"), layers)
