"""Multi-token prediction layers in targets' shards and in speculators' files."""

from __future__ import annotations

import json

import pytest
import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.dequantise import dequantise
from specbench.models.heads.describe import describe_heads
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.foreign import QWEN_MTP
from specbench.models.heads.sniff import holds_only_a_head
from tests.models.heads import mtp_fixtures as made
from tests.models.heads.fixtures import LAYERS, noise
from tests.models.heads.reading import other_target, read

PREFIX = f"model.layers.{LAYERS}."


def test_deepseek(tmp_path):
    stored = made.nextn(tmp_path)
    head = read(tmp_path)
    assert (head.family, head.layout) == ("mtp", "nextn")
    config = head.config
    assert (config.family, config.layers) == ("deepseek", 1)
    assert (config.order, config.recycle, config.zero_first) == (
        "embedding_first",
        "pre_norm",
        True,
    )
    assert any("recycle pre_norm" in oddity for oddity in head.oddities)
    names = {
        "enorm.weight": "enorm.weight",
        "hnorm.weight": "hnorm.weight",
        "eh_proj.weight": "eh_proj.weight",
        "norm.weight": "shared_head.norm.weight",
        "layer.input_layernorm.weight": "input_layernorm.weight",
        "layer.mlp.experts.0.gate_proj.weight": "mlp.experts.0.gate_proj.weight",
        "layer.mlp.gate.e_score_correction_bias": "mlp.gate.e_score_correction_bias",
    }
    for ours, theirs in names.items():
        assert torch.equal(head.tensors[ours], stored[PREFIX + theirs])


def test_copies_of_the_targets_ends_are_left_out(tmp_path):
    made.nextn(tmp_path)
    assert not {"embed_tokens.weight", "head.weight"} & read(tmp_path).tensors.keys()


def test_ends_of_its_own_are_kept_and_said(tmp_path):
    stored = made.nextn(tmp_path, copies="other")
    head = read(tmp_path)
    assert torch.equal(head.tensors["head.weight"], stored[PREFIX + "shared_head.head.weight"])
    assert torch.equal(head.tensors["embed_tokens.weight"], stored[PREFIX + "embed_tokens.weight"])
    assert sum("is kept" in oddity for oddity in head.oddities) == 2


def test_only_the_shards_of_the_layer_are_read(tmp_path):
    made.nextn(tmp_path, copies="none")
    for file in (made.MAIN, made.ENDS):
        (tmp_path / file).write_bytes(b"not read")
    assert read(tmp_path).config.layers == 1


def test_glm_feeds_the_normed_state_back(tmp_path):
    made.nextn(tmp_path, model_type="glm4_moe")
    config = read(tmp_path).config
    assert (config.family, config.order, config.recycle) == (
        "glm4_moe",
        "embedding_first",
        "post_norm",
    )


def test_mimo_puts_the_hidden_state_first(tmp_path):
    stored = made.mimo(tmp_path)
    head = read(tmp_path)
    assert (head.layout, head.config.family) == ("mimo", "mimo")
    assert (head.config.order, head.config.recycle) == ("hidden_first", "post_norm")
    p = "model.mtp_layers.0."
    assert torch.equal(head.tensors["enorm.weight"], stored[p + "token_layernorm.weight"])
    assert torch.equal(head.tensors["hnorm.weight"], stored[p + "hidden_layernorm.weight"])
    assert torch.equal(head.tensors["norm.weight"], stored[p + "final_layernorm.weight"])
    bias = "self_attn.q_proj.bias"
    assert torch.equal(head.tensors[f"layer.{bias}"], stored[p + bias])


def test_speculators(tmp_path):
    stored = made.speculators(tmp_path)
    head = read(tmp_path)
    assert head.layout == "speculators"
    assert (head.config.order, head.config.recycle) == ("embedding_first", "post_norm")
    assert torch.equal(head.tensors["eh_proj.weight"], stored["mtp_layers.0.input_proj.weight"])


@pytest.mark.parametrize(
    ("write", "server"),
    [
        (made.mimo_v2, "SGLang or vLLM"),
        (lambda folder: made.speculators(folder, "qwen3_next"), "vLLM or SGLang"),
    ],
)
def test_layers_that_only_servers_run(tmp_path, write, server):
    write(tmp_path)
    with pytest.raises(UsageError, match="not run natively") as caught:
        read(tmp_path, "mtp")
    assert server in caught.value.hint


@pytest.mark.parametrize("family", ["mtp", "eagle3"])
def test_qwen_next_is_refused_before_it_is_fitted(tmp_path, family):
    made.qwen_next(tmp_path)
    with pytest.raises(UsageError, match=r"^arm a: .*recurrent layers, not run natively") as caught:
        read(tmp_path, family, target=other_target(hidden=64, vocabulary=100))
    assert "vLLM or SGLang as method mtp" in caught.value.hint


def test_qwen_next_is_described(tmp_path):
    stored = made.qwen_next(tmp_path)
    heads = describe_heads(open_checkpoint(tmp_path), None)
    assert (heads.native, heads.foreign) == ((), QWEN_MTP)
    (head,) = heads.elsewhere
    assert (head.family, head.layout, head.drafters) == ("mtp", "qwen", ())
    assert head.fields == {
        "family": "qwen3_next",
        "layers": 1,
        "order": "embedding_first",
        "recycle": "post_norm",
        "zero_first": False,
        "centred_norms": True,
        "vocabulary": 128,
        "draft_vocabulary": 128,
    }
    assert any("1 + their weight" in oddity for oddity in head.oddities)
    assert head.tensors == len(stored)
    assert head.parameters == sum(tensor.numel() for tensor in stored.values())
    assert head.size_bytes == 4 * head.parameters


def test_a_target_without_such_layers(tmp_path):
    made.nextn(tmp_path)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    index["weight_map"] = {n: f for n, f in index["weight_map"].items() if f != made.MODULE}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UsageError, match="holds no head of family mtp"):
        read(tmp_path, "mtp")


def test_8_bit_floats_are_multiplied_by_their_scales(tmp_path):
    stored = made.nextn(tmp_path, fp8=True)
    weight = stored[PREFIX + "self_attn.kv_b_proj.weight"].float()
    found = read(tmp_path).tensors["layer.self_attn.kv_b_proj.weight"]
    assert found.dtype == torch.float32
    # 160 rows: 128 with the first block's scale 0.5, 32 with the second's, 4
    assert torch.equal(found[:128], weight[:128] * 0.5)
    assert torch.equal(found[128:], weight[128:] * 4.0)


def test_scales_of_the_entrance_are_no_second_module(tmp_path):
    stored = made.nextn(tmp_path, fp8=True)
    head = read(tmp_path)
    assert head.config.layers == 1
    assert not any("modules" in oddity for oddity in head.oddities)
    name = PREFIX + "eh_proj.weight"
    assert torch.equal(head.tensors["eh_proj.weight"], stored[name].float() * 0.25)


@pytest.mark.parametrize(
    ("scale", "stored_as"),
    [
        # MXFP8: byte 118 is the exponent of 2 ** (118 - 127), not the number 118
        (torch.full((made.LATENT, 1), 118, dtype=torch.uint8), "U8"),
        (torch.full((made.LATENT, 1), 2.0**-9).to(torch.float8_e8m0fnu), "F8_E8M0"),
        (torch.full((2, 1), 0.5).to(made.FP8), "F8_E4M3"),
        (torch.ones(2, 1, dtype=torch.int32), "I32"),
    ],
)
def test_scales_that_are_no_plain_numbers_are_refused(tmp_path, scale, stored_as):
    stored = made.nextn(tmp_path / "good", fp8=True)
    name = PREFIX + "self_attn.kv_b_proj.weight"
    config = {"quantization_config": {"weight_block_size": [1, 32]}}
    bad = stored | {f"{name}_scale_inv": scale}
    if scale.shape[0] == 2:
        config = {}
    made.write(tmp_path / "bad", config, bad, "model.safetensors")
    with pytest.raises(PrerequisiteError) as caught:
        read(tmp_path / "bad")
    assert f"{name}_scale_inv, the scales of {name}, is stored as {stored_as}" in str(caught.value)


def test_plain_weights_with_scales_are_refused(tmp_path):
    stored = made.nextn(tmp_path / "good", fp8=True)
    name = PREFIX + "self_attn.kv_b_proj.weight"
    bad = stored | {name: stored[name].to(torch.bfloat16)}
    made.write(tmp_path / "bad", {}, bad, "model.safetensors")
    with pytest.raises(PrerequisiteError, match=f"{name} is stored as BF16 with scales"):
        read(tmp_path / "bad")


def test_8_bit_floats_stay_small_where_no_type_is_asked_for(tmp_path):
    made.nextn(tmp_path, fp8=True)
    tensors = read(tmp_path, dtype="auto").tensors
    assert tensors["layer.self_attn.kv_b_proj.weight"].dtype == torch.bfloat16


def test_8_bit_floats_without_scales_are_refused(tmp_path):
    stored = made.nextn(tmp_path, fp8=True)
    del stored[PREFIX + "self_attn.kv_b_proj.weight_scale_inv"]
    made.write(tmp_path / "other", {}, stored, "model.safetensors")
    with pytest.raises(PrerequisiteError, match="stored as F8_E4M3 without scales"):
        read(tmp_path / "other")


def test_blocks_at_the_edges_by_hand():
    weight = torch.zeros(130, 200)
    weight[0, 0], weight[0, 199], weight[129, 0], weight[129, 199] = 1.0, 2.0, -0.5, 4.0
    scale = torch.tensor([[10.0, 100.0], [1000.0, 0.25]])
    found = dequantise(weight.to(made.FP8), scale, (128, 128), "w")
    corners = (found[0, 0], found[0, 199], found[129, 0], found[129, 199])
    assert [float(c) for c in corners] == [10.0, 200.0, -500.0, 1.0]
    assert int((found != 0).sum()) == 4


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_scales_per_row(shape):
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.5, 8.0]]).to(made.FP8)
    found = dequantise(weight, torch.tensor([2.0, 10.0, 4.0]).reshape(shape), (128, 128), "w")
    assert found.tolist() == [[2.0, 4.0], [30.0, 40.0], [2.0, 32.0]]


def test_scales_of_another_shape_are_refused():
    weight = noise(130, 200).to(made.FP8)
    with pytest.raises(PrerequisiteError, match=r"scales of shape \[1, 2\], expected \[2, 2\]"):
        dequantise(weight, torch.ones(1, 2), (128, 128), "w")


def test_modules_are_counted_from_the_tensors(tmp_path):
    stored = made.nextn(tmp_path, copies="none")
    second = {n.replace(PREFIX, f"model.layers.{LAYERS + 1}."): t + 1 for n, t in stored.items()}
    config = {"num_hidden_layers": LAYERS, "num_nextn_predict_layers": 1, "model_type": "x"}
    made.write(tmp_path / "two", config, stored | second, "model.safetensors")
    head = read(tmp_path / "two")
    assert head.config.layers == 2
    assert torch.equal(head.tensors["enorm.weight"], stored[PREFIX + "enorm.weight"])
    assert "config.json says 1 MTP modules, the files hold 2" in head.oddities
    first = "2 modules; only the first is read, and it is used at every step"
    assert first in head.facts()["oddities"]


def test_a_module_exported_alone(tmp_path):
    stored = made.nextn(tmp_path / "model")
    alone = {n.replace(PREFIX, "model.layers.0."): t for n, t in stored.items()}
    config = {"num_hidden_layers": 1, "num_nextn_predict_layers": 1, "model_type": "deepseek_v3"}
    made.write(tmp_path / "alone", config, alone, "model.safetensors")
    assert holds_only_a_head(tmp_path / "alone")
    head = read(tmp_path / "alone")
    assert torch.equal(head.tensors["enorm.weight"], stored[PREFIX + "enorm.weight"])
    assert {"embed_tokens.weight", "head.weight"} <= head.tensors.keys()
    assert not any("behind" in oddity for oddity in head.oddities)


def test_what_chooses_experts_stays_in_float32(tmp_path):
    made.nextn(tmp_path)
    tensors = read(tmp_path, dtype="bfloat16").tensors
    assert tensors["layer.mlp.gate.e_score_correction_bias"].dtype == torch.float32
    assert tensors["layer.mlp.gate.weight"].dtype == torch.float32
    assert tensors["layer.mlp.experts.0.gate_proj.weight"].dtype == torch.bfloat16


def test_wrong_targets_are_refused_with_both_numbers(tmp_path):
    made.nextn(tmp_path)
    with pytest.raises(PrerequisiteError, match="size 32, the target's have size 64"):
        read(tmp_path, target=other_target(hidden=64))
    with pytest.raises(PrerequisiteError, match="128 tokens, the target 100"):
        read(tmp_path, target=other_target(vocabulary=100))
