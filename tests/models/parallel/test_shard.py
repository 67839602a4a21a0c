"""What a process keeps of a model, and what cannot be shared."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from specbench.core.ranks import follows
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.packed_batch import Segment
from specbench.models.parallel.group import Group, join, required
from specbench.models.parallel.shard import JoinedOutput, SummedLinear, shard, shard_layers
from specbench.models.parallel.wire import decode, encode
from tests.models.families import build


def group(rank, size=2):
    return Group(rank, size, torch.device("cpu"), None, None)


def test_every_weight_is_kept_by_hand():
    whole, parts = build("qwen2"), [build("qwen2"), build("qwen2")]
    for rank, model in enumerate(parts):
        shard(model, group(rank), "tiny")
    layer, shares = whole.model.layers[1], [part.model.layers[1] for part in parts]
    for rank, share in enumerate(shares):
        # Heads of 8: query heads 0-1 and key head 0, then 2-3 and 1.
        assert torch.equal(
            share.self_attn.q_proj.weight,
            layer.self_attn.q_proj.weight[16 * rank : 16 * (rank + 1)],
        )
        assert torch.equal(
            share.self_attn.k_proj.bias, layer.self_attn.k_proj.bias[8 * rank : 8 * (rank + 1)]
        )
        assert torch.equal(
            share.mlp.up_proj.weight, layer.mlp.up_proj.weight[24 * rank : 24 * (rank + 1)]
        )
        assert isinstance(share.mlp.down_proj, SummedLinear)
        assert torch.equal(
            share.mlp.down_proj.linear.weight,
            layer.mlp.down_proj.weight[:, 24 * rank : 24 * (rank + 1)],
        )
        assert torch.equal(
            share.self_attn.o_proj.linear.weight,
            layer.self_attn.o_proj.weight[:, 16 * rank : 16 * (rank + 1)],
        )
        assert torch.equal(
            parts[rank].lm_head.linear.weight, whole.lm_head.weight[32 * rank : 32 * (rank + 1)]
        )
        assert torch.equal(parts[rank].model.embed_tokens.weight, whole.model.embed_tokens.weight)
    assert torch.equal(parts[0].lm_head.alone(torch.eye(32)), whole.lm_head(torch.eye(32)))


def test_a_vocabulary_that_does_not_divide_is_padded_at_the_end():
    output = nn.Linear(4, 5)
    first, last = (JoinedOutput(output, group(rank, 2)) for rank in range(2))
    assert torch.equal(first.linear.weight, output.weight[:3])
    assert torch.equal(last.linear.weight[:2], output.weight[3:])
    assert last.linear.weight[2].tolist() == [0] * 4
    assert last.linear.bias[2] == 0
    last.drop_whole()
    assert last.weight is None


@pytest.mark.parametrize(
    ("changes", "size", "told"),
    [
        ({}, 4, "4 attention heads and 2 for keys and values, which 4 processes"),
        ({"num_key_value_heads": 4, "intermediate_size": 50}, 4, "mlp.gate_proj has 50 features"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(changes, size, told):
    with pytest.raises(PrerequisiteError, match="cannot share evenly") as refused:
        shard(build("llama", **changes), group(0, size), "tiny")
    assert told in str(refused.value)
    assert "tensor_parallel to a divisor" in refused.value.hint


def test_models_without_a_plan_and_unknown_styles_are_refused_by_name():
    model = build("llama")
    model.config.base_model_tp_plan = None
    with pytest.raises(PrerequisiteError, match="tiny: transformers has no tensor-parallel plan"):
        shard(model, group(0), "tiny")
    plan = {"layers.*.mlp.gate_proj": "packed_rowwise"}
    with pytest.raises(PrerequisiteError, match=r"layers\.0\.mlp\.gate_proj: a Linear is not"):
        shard_layers(build("llama").model, plan, group(0), "tiny")


def test_layers_that_every_process_keeps_whole_stay():
    base = build("llama").model
    before = base.layers[0].mlp.gate_proj
    shard_layers(base, {"layers.*.mlp.gate_proj": "replicated_with_grad_allreduce"}, group(0), "t")
    assert base.layers[0].mlp.gate_proj is before


@dataclass
class Started:
    given: dict
    told: str


@pytest.mark.parametrize(
    "started",
    [
        Started({}, "this process was started alone"),
        Started({"WORLD_SIZE": "4"}, "this process is one of 4"),
    ],
)
def test_a_process_without_the_others_is_told_what_to_type(started):
    with pytest.raises(UsageError, match=started.told) as refused:
        join(2, "cpu", started.given)
    assert refused.value.hint == "torchrun --nproc-per-node 2 -m specbench run ..."


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"graphs": True}, "target.graphs is for a target in one process"),
        ({"compile": True}, "target.compile is for a target in one process"),
        ({"quant": "int8"}, "quantised layers are not shared"),
    ],
)
def test_what_it_excludes(settings, told):
    assert required(settings) == 1
    with pytest.raises(UsageError, match=told):
        required(settings | {"tensor_parallel": 2})


def test_who_follows():
    assert not follows(1, {"RANK": "1"})
    assert not follows(2, {})
    assert not follows(2, {"RANK": "0"})
    assert follows(2, {"RANK": "1"})


def test_segments_survive_the_wire():
    visible = torch.tensor([[1, 0], [1, 1]], dtype=torch.bool)
    sent = [Segment(3, 5, 2), Segment(1, 4, 2, visible, torch.tensor([0, 1]))]
    chain, tree = decode(encode(sent))
    assert chain == sent[0]
    assert (tree.slab, tree.start, tree.count) == (1, 4, 2)
    assert torch.equal(tree.visible, visible)
    assert tree.depths.tolist() == [0, 1]
