"""Medusa checkpoints: the authors' two versions, merged into a model, vLLM's."""

from __future__ import annotations

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import FINAL
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.sniff import holds_only_a_head, sniff
from tests.models.heads import fixtures as made
from tests.models.heads.reading import other_target, read


@pytest.mark.parametrize("file", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_v1_counts_heads_by_the_tensors(tmp_path, file):
    stored = made.medusa_v1(tmp_path, file=file)
    head = read(tmp_path)
    assert (head.family, head.layout) == ("medusa", "v1")
    config = head.config
    assert (config.heads, config.blocks, config.projection, config.bias) == (5, 1, "own", True)
    assert (config.hidden, config.vocabulary, config.draft_vocabulary) == (32, 128, 128)
    assert config.taps == (FINAL,)
    for i in range(5):
        weight = head.tensors[f"heads.{i}.blocks.0.weight"]
        assert torch.equal(weight, stored[f"{i}.0.linear.weight"])
        assert torch.equal(head.tensors[f"heads.{i}.projection.weight"], stored[f"{i}.1.weight"])
    assert "config.json says 2 heads, the file holds 5" in head.oddities


def test_several_blocks_stand_before_the_projection(tmp_path):
    stored = made.medusa_v1(tmp_path, blocks=2)
    head = read(tmp_path)
    assert head.config.blocks == 2
    assert torch.equal(head.tensors["heads.1.blocks.1.bias"], stored["1.1.linear.bias"])
    assert torch.equal(head.tensors["heads.1.projection.weight"], stored["1.2.weight"])


def test_v2_uses_the_targets_projection(tmp_path):
    made.medusa_v2(tmp_path)
    head = read(tmp_path)
    assert (head.layout, head.config.projection, head.config.heads) == ("v2", "target", 3)
    assert head.config.vocabulary == head.config.draft_vocabulary == 128
    assert head.oddities == ()


def test_missing_projections_are_said_where_the_configuration_does_not(tmp_path):
    tensors = made.medusa_v2(tmp_path)
    made.write(tmp_path, {}, tensors, "medusa_lm_head.safetensors")
    head = read(tmp_path)
    assert head.config.projection == "target"
    assert any("the target's is used" in oddity for oddity in head.oddities)


def test_merged_heads_are_read_from_their_shard_alone(tmp_path):
    stored = made.medusa_merged(tmp_path)
    (tmp_path / "model-1.safetensors").write_bytes(b"not read")
    head = read(tmp_path)
    assert (head.layout, head.config.heads) == ("merged", 3)
    weight = head.tensors["heads.2.projection.weight"]
    assert torch.equal(weight, stored["medusa_head.2.1.weight"])


def test_vllm_names_and_map(tmp_path):
    stored = made.medusa_vllm(tmp_path)
    head = read(tmp_path)
    assert (head.layout, head.config.projection, head.config.bias) == ("vllm", "own", False)
    assert (head.config.heads, head.config.blocks) == (3, 2)
    assert (head.config.vocabulary, head.config.draft_vocabulary) == (128, 48)
    assert head.tensors["target_ids"].tolist() == made.USED_IDS
    assert torch.equal(head.tensors["heads.1.blocks.1.weight"], stored["blocks.1.layers.1.weight"])


def test_rows_of_a_whole_projection_follow_the_map(tmp_path):
    stored = made.medusa_vllm(tmp_path, whole_rows=True)
    head = read(tmp_path)
    wanted = stored["lm_heads.2.weight"][made.USED_IDS]
    assert torch.equal(head.tensors["heads.2.projection.weight"], wanted)
    assert head.config.draft_vocabulary == 48


def test_one_projection_for_all(tmp_path):
    stored = made.medusa_vllm(tmp_path, one=True, mapped=False)
    head = read(tmp_path)
    assert head.config.projection == "one"
    assert torch.equal(head.tensors["projection.weight"], stored["lm_head.weight"])


def test_vllm_keeps_a_shared_projection_under_head_0(tmp_path):
    stored = made.medusa_vllm(tmp_path, one=True, mapped=False)
    stored["lm_heads.0.weight"] = stored.pop("lm_head.weight")
    config = {"model_type": "medusa", "original_lm_head": True, "vocab_size": 128}
    made.write(tmp_path, config, stored, "model.safetensors")
    assert read(tmp_path).config.projection == "one"


def test_a_smaller_vocabulary_without_a_map_is_refused(tmp_path):
    stored = made.medusa_vllm(tmp_path)
    del stored["token_map"]
    made.write(tmp_path, {"vocab_size": 128}, stored, "model.safetensors")
    with pytest.raises(PrerequisiteError, match="48 of 128 tokens and no token_map"):
        read(tmp_path)


@pytest.mark.parametrize(("value", "message"), [(128, "leads out"), (3, "names a token twice")])
def test_bad_maps(tmp_path, value, message):
    stored = made.medusa_vllm(tmp_path)
    stored["token_map"][-1] = value
    made.write(tmp_path, {"vocab_size": 128}, stored, "model.safetensors")
    with pytest.raises(PrerequisiteError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("1.0.linear.weight", "lacks block 0 of head 1"),
        ("1.0.linear.bias", "4 biases for 5 blocks"),
        ("1.1.weight", "projections for 4 of 5 heads"),
    ],
)
def test_incomplete_heads_are_refused(tmp_path, name, message):
    stored = made.medusa_v1(tmp_path)
    del stored[name]
    made.write(tmp_path, {}, stored, "medusa_lm_head.pt")
    with pytest.raises(PrerequisiteError, match=message):
        read(tmp_path)


def test_unknown_tensors_are_an_error(tmp_path):
    stored = made.medusa_v1(tmp_path)
    made.write(tmp_path, {}, stored | {"norm.weight": made.noise(32)}, "medusa_lm_head.pt")
    with pytest.raises(PrerequisiteError, match=r"norm\.weight of shape \[32\] is not known"):
        read(tmp_path)


def test_wrong_targets_are_refused_with_both_numbers(tmp_path):
    made.medusa_v1(tmp_path)
    with pytest.raises(PrerequisiteError, match="size 32, the target's have size 64"):
        read(tmp_path, target=other_target(hidden=64))
    with pytest.raises(PrerequisiteError, match="128 tokens, the target 100"):
        read(tmp_path, target=other_target(vocabulary=100))


@pytest.mark.parametrize("file", ["medusa_lm_head.safetensors", "medusa_lm_head.pt"])
@pytest.mark.parametrize("indexed", [False, True])
def test_heads_in_a_file_beside_a_model(tmp_path, indexed, file):
    config = made.llama_config(num_hidden_layers=made.LAYERS, medusa_num_heads=5)
    model = made.small_model()
    if indexed:
        made.shard(tmp_path, {"model-1.safetensors": model}, config)
    else:
        made.write(tmp_path, config, model, "model.safetensors")
    stored = made.write(tmp_path, config, made.medusa_heads(), file)
    head = read(tmp_path, "medusa")
    assert (head.layout, head.config.heads, head.config.projection) == ("v1", 5, "own")
    name = "heads.4.blocks.0.weight"
    assert torch.equal(head.tensors[name], stored["4.0.linear.weight"])
    assert len(head.tensors) == len(stored)
    contents = sniff(open_checkpoint(tmp_path))
    assert contents.model
    assert not holds_only_a_head(tmp_path)


def test_an_unknown_tensor_beside_a_model_is_an_error(tmp_path):
    made.write(tmp_path, made.llama_config(), made.small_model(), "model.safetensors")
    stored = made.medusa_heads() | {"extra.weight": made.noise(2)}
    made.write(tmp_path, made.llama_config(), stored, "medusa_lm_head.safetensors")
    with pytest.raises(PrerequisiteError, match=r"tensor extra\.weight"):
        read(tmp_path, "medusa")
