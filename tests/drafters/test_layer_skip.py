"""Early exit: shares the target's KV, and leaves it as a fresh prefill would."""

import pytest
import torch

from specbench.drafters.layer_skip import LayerSkipDrafter
from specbench.drafters.none import NoDrafter
from specbench.errors import UsageError
from specbench.models.early_exit import early_exit
from specbench.models.packed import PackedModel
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.families import VOCABULARY, build

pytestmark = pytest.mark.usefixtures("one_thread")


def drafter_of(layers, calls=None):
    def make(pool, target):
        model = PackedModel(early_exit(target.model, layers), "exit")
        pool.alias("exit", "target", layers)
        model.use(pool)
        if calls is not None:
            forward = model.forward
            model.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return LayerSkipDrafter(model, VOCABULARY)

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
