"""Shapes of a head are compared before weights are read: inspection says what loading says."""

from __future__ import annotations

import json

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.describe import describe_heads
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.layouts.eagle_shapes import eagle_shapes
from specbench.models.heads.layouts.eagle_sizes import ACTIVATIONS
from specbench.models.heads.target_facts import target_facts
from specbench.models.locate import Location
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures, tiny_heads
from tests.models.heads.reading import read

ATTENTION = "midlayer.self_attn."


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (tiny_heads.eagle_config(1), []),
        (tiny_heads.eagle_config(1, fc_bias=True, layers=2, final_norm=True), ["lm_head.weight"]),
        (tiny_heads.eagle_config(1, input_norm=True), ["embed_tokens.weight"]),
        (tiny_heads.eagle_config(3), []),
        (tiny_heads.eagle_config(3, layers=3, fc_norm=True, fc_bias=True), ["lm_head.weight"]),
        (
            tiny_heads.eagle_config(3, attention_bias=True, norm_before_fc=True),
            ["layers.0.self_attn.o_proj.bias"],
        ),
    ],
)
def test_shapes_are_those_written_out_by_hand(config, own):
    fields = {name: getattr(config, name) for name in config.__dataclass_fields__}
    by_hand = tiny_heads.eagle_shapes(config, own)
    found = eagle_shapes(fields, len(config.taps), own)
    assert {name: list(shape) for name, shape in found.items()} == by_hand


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        (
            {f"{ATTENTION}k_proj.weight": (32, 32)},
            r"k_proj\.weight is \[32, 32\], wanted \[32, 64\]",
        ),
        (
            {f"{ATTENTION}v_proj.weight": (16, 64)},
            r"v_proj\.weight is \[16, 64\], wanted \[32, 64\]",
        ),
        ({f"{ATTENTION}o_proj.weight": (32, 32)}, r"o_proj\.weight is \[32, 32\]"),
        ({f"{ATTENTION}k_proj.weight": (24, 64)}, "24 key rows of head size 16"),
        ({"midlayer.mlp.down_proj.weight": (32, 41)}, r"down_proj\.weight is \[32, 41\]"),
        ({"norm.weight": (31,)}, r"norm\.weight is \[31\], wanted \[32\]"),
        ({"midlayer.hidden_norm.weight": (32, 1)}, r"hidden_norm\.weight is \[32, 1\]"),
        ({"lm_head.weight": (48, 31)}, r"lm_head\.weight is \[48, 31\], wanted \[48, 32\]"),
        ({"embed_tokens.weight": (128, 16)}, r"embed_tokens\.weight is \[128, 16\]"),
        ({f"{ATTENTION}q_proj.bias": (64,)}, r"2 of its tensors.*k_proj\.bias is missing"),
        ({f"{ATTENTION}o_proj.bias": (32,)}, r"o_proj\.bias of \[32\] has no place"),
        ({"fc_norm.0.weight": (32,)}, r"2 of its tensors.*fc_norm\.1\.weight is missing"),
        ({"layers.1.hidden_norm.weight": (32,)}, r"layers\.1\.\S+ is missing"),
    ],
)
def test_an_eagle3_head_that_cannot_be_laid_out(tmp_path, tensors, message):
    stored = made.eagle3_tensors()
    stored |= {name: torch.zeros(shape) for name, shape in tensors.items()}
    made.write(tmp_path, made.llama_config(), stored, "model.safetensors")
    _refused(tmp_path, message)


def test_a_head_size_that_the_tensors_contradict(tmp_path):
    made.eagle3(tmp_path, head_dim=128)
    (head,) = describe_heads(open_checkpoint(tmp_path), None).native
    assert head.fields["head_size"] == 16
    assert "config.json says head_dim 128, the tensors 16" in head.oddities


def test_a_head_size_that_is_not_said(tmp_path):
    # 64 query rows of 4 heads; a hidden size of 32 would give heads of 8
    made.eagle3(tmp_path, head_dim=None)
    (head,) = describe_heads(open_checkpoint(tmp_path), None).native
    said = "config.json does not say the head size; 16 by the query projection"
    assert said in head.oddities


def test_a_narrower_head_needs_ends_of_its_own(tmp_path):
    made.eagle3(tmp_path)
    stored = made.eagle3_tensors() | {"fc.weight": torch.zeros(32, 3 * 64)}
    made.write(tmp_path, made.llama_config(), stored, "model.safetensors")
    (head,) = describe_heads(open_checkpoint(tmp_path), None).native
    assert "embed_tokens.weight is missing, and the target's has hidden size 64" in head.problem


def test_an_eagle1_head_that_cannot_feed_itself(tmp_path):
    stored = made.eagle1(tmp_path, file="model.safetensors")
    stored["fc.weight"] = torch.zeros(32, 32 + 16)
    made.write(tmp_path, made.llama_config(), stored, "model.safetensors")
    (head,) = describe_heads(open_checkpoint(tmp_path), None).native
    assert "cannot feed itself" in head.problem


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("1.0.linear.weight", (32, 31), r"1\.0\.linear\.weight is \[32, 31\]"),
        ("2.0.linear.bias", (31,), r"2\.0\.linear\.bias is \[31\]"),
        ("3.1.weight", (100, 32), r"3\.1\.weight is \[100, 32\], wanted \[128, 32\]"),
    ],
)
def test_medusa_heads_of_unequal_shapes(tmp_path, name, shape, message):
    stored = made.medusa_heads() | {name: torch.zeros(shape)}
    made.write(tmp_path, {"vocab_size": 128}, stored, "medusa_lm_head.safetensors")
    _refused(tmp_path, message)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("enorm.weight", (31,)), ("eh_proj.weight", (32, 63)), ("shared_head.norm.weight", (2, 16))],
)
def test_the_frame_of_an_mtp_layer(tmp_path, name, shape):
    stored = mtp_fixtures.nextn(tmp_path / "good")
    full = f"model.layers.{made.LAYERS}.{name}"
    config = json.loads((tmp_path / "good" / "config.json").read_text())
    changed = made.small_model() | stored | {full: torch.zeros(shape)}
    made.write(tmp_path / "bad", config, changed, "model.safetensors")
    _refused(tmp_path / "bad", rf"{full} is \[")


def test_scales_of_another_shape(tmp_path):
    stored = mtp_fixtures.nextn(tmp_path / "good", fp8=True)
    config = json.loads((tmp_path / "good" / "config.json").read_text())
    scale = f"model.layers.{made.LAYERS}.self_attn.kv_b_proj.weight_scale_inv"
    made.write(tmp_path / "bad", config, stored | {scale: torch.ones(3, 1)}, "model.safetensors")
    _refused(tmp_path / "bad", r"has scales of shape \[3, 1\], expected \[2, 1\]")


def test_an_mtp_layer_is_compared_with_the_targets_last_one(tmp_path):
    target = tmp_path / "target"
    config = made.llama_config(num_hidden_layers=made.LAYERS)
    made.write(target, config, made.small_model(), "model.safetensors")
    facts = target_facts(Location("folder", "target", None, target, "folder"))
    stored = mtp_fixtures.speculators(tmp_path / "head")
    (fits,) = describe_heads(open_checkpoint(tmp_path / "head"), facts).native
    assert fits.problem is None
    stored["mtp_layers.0.mlp.up_proj.weight"] = torch.zeros(41, made.HIDDEN)
    given = json.loads((tmp_path / "head" / "config.json").read_text())
    made.write(tmp_path / "head", given, stored, "model.safetensors")
    (other,) = describe_heads(open_checkpoint(tmp_path / "head"), facts).native
    assert "up_proj.weight is [41, 32], wanted [40, 32]" in other.problem


def test_activations_are_transformers():
    from transformers.activations import ACT2FN

    assert set(ACTIVATIONS) <= ACT2FN.keys()


def _refused(folder, message):
    """Reading refuses a folder, and inspection says the same."""
    with pytest.raises(PrerequisiteError, match=message) as caught:
        read(folder)
    (head,) = describe_heads(open_checkpoint(folder), None).native
    assert head.problem == caught.value.message
