"""EAGLE-1/2 checkpoints: the authors' and speculators'; the tensors decide."""

from __future__ import annotations

import json

import pytest
import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import FINAL
from tests.models.heads import fixtures as made
from tests.models.heads.reading import other_target, read


def test_official_in_a_pickle(tmp_path):
    stored = made.eagle1(tmp_path)
    head = read(tmp_path)
    assert (head.family, head.layout) == ("eagle1", "official")
    assert head.tensors.keys() == stored.keys()
    assert all(torch.equal(head.tensors[name], stored[name]) for name in stored)
    config = head.config
    assert (config.version, config.hidden, config.target_hidden) == (1, 32, 32)
    assert (config.heads, config.kv_heads, config.head_size, config.layers) == (4, 2, 16, 1)
    assert (config.intermediate, config.vocabulary, config.draft_vocabulary) == (40, 128, 128)
    assert (config.rope_theta, config.max_positions, config.norm_eps) == (500000.0, 512, 1e-5)
    assert config.fc_bias
    assert not config.input_norm
    assert not config.final_norm
    assert config.taps == (FINAL,)
    assert head.oddities == ()


def test_a_missing_embedding_is_the_targets(tmp_path):
    made.eagle1(tmp_path, embed=False)
    assert "embed_tokens.weight" not in read(tmp_path).tensors


def test_no_bias_as_llama_3_has_it(tmp_path):
    made.eagle1(tmp_path, bias=False, file="model.safetensors")
    head = read(tmp_path)
    assert not head.config.fc_bias
    assert head.oddities == ()


def test_the_bias_in_the_file_counts(tmp_path):
    made.eagle1(tmp_path / "with", bias=True)
    made.eagle1(tmp_path / "without", bias=False)
    (tmp_path / "without" / "config.json").write_text(
        (tmp_path / "with" / "config.json").read_text()
    )
    head = read(tmp_path / "without")
    assert not head.config.fc_bias
    assert any("bias" in oddity for oddity in head.oddities)


def test_an_absent_theta_is_the_training_codes_and_not_the_targets(tmp_path):
    made.eagle1(tmp_path, rope_theta=None)
    head = read(tmp_path)
    assert head.config.rope_theta == 10000.0
    assert any("rope_theta" in oddity for oddity in head.oddities)


def test_rope_as_transformers_5_writes_it(tmp_path):
    rope = {"rope_theta": 7000.0, "rope_type": "llama3", "factor": 8.0}
    made.eagle1(tmp_path, rope_theta=None, rope_parameters=rope)
    config = read(tmp_path).config
    assert config.rope_theta == 7000.0
    assert config.rope_scaling == {"rope_type": "llama3", "factor": 8.0}


def test_sizes_come_from_the_tensors(tmp_path):
    made.eagle1(tmp_path, head_dim=None, num_hidden_layers=4, num_key_value_heads=4)
    head = read(tmp_path)
    assert (head.config.head_size, head.config.kv_heads, head.config.layers) == (16, 2, 1)
    assert len(head.oddities) == 3


def test_speculators_names(tmp_path):
    stored = made.eagle1_speculators(tmp_path)
    head = read(tmp_path)
    assert (head.family, head.layout) == ("eagle1", "speculators")
    assert torch.equal(head.tensors["fc.weight"], stored["fusion_fc.weight"])
    name = "self_attn.q_proj.weight"
    assert torch.equal(head.tensors[f"layers.0.{name}"], stored[f"transformer.{name}"])
    assert head.oddities == ("no rope_theta in config.json; 10000 as in the authors' training",)


def test_the_variant_with_extra_norms_is_refused_by_name(tmp_path):
    made.eagle1_speculators(tmp_path, extra_norms=True)
    with pytest.raises(PrerequisiteError, match=r"embedding_layernorm.*extra norms"):
        read(tmp_path)


def test_biases_of_attention_without_one_behind_it(tmp_path):
    stored = made.eagle1(tmp_path)
    stored |= {
        "layers.0.self_attn.q_proj.bias": made.noise(64),
        "layers.0.self_attn.k_proj.bias": made.noise(32),
        "layers.0.self_attn.v_proj.bias": made.noise(32),
    }
    made.write(tmp_path, made.llama_config(), stored, "pytorch_model.bin")
    head = read(tmp_path)
    assert head.config.attention_bias
    assert torch.equal(head.tensors["layers.0.self_attn.o_proj.bias"], torch.zeros(32))


def test_an_unknown_tensor_is_an_error(tmp_path):
    stored = made.eagle1(tmp_path)
    made.write(
        tmp_path,
        made.llama_config(),
        stored | {"layers.0.mlp.gate_proj.bias": made.noise(40)},
        "pytorch_model.bin",
    )
    with pytest.raises(PrerequisiteError, match=r"layers\.0\.mlp\.gate_proj\.bias of shape \[40\]"):
        read(tmp_path)


def test_tables_of_angles_are_ignored(tmp_path):
    stored = made.eagle1(tmp_path)
    table = {"layers.0.self_attn.rotary_emb.inv_freq": made.noise(8)}
    made.write(tmp_path, made.llama_config(), stored | table, "pytorch_model.bin")
    assert read(tmp_path).tensors.keys() == stored.keys()


def test_a_missing_tensor_is_named(tmp_path):
    stored = made.eagle1(tmp_path)
    del stored["layers.0.mlp.up_proj.weight"]
    made.write(tmp_path, made.llama_config(), stored, "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match=r"lacks 1 tensors, first layers\.0\.mlp\.up_proj"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("shape", "message"), [((32,), "expected a matrix"), ((32, 32), "fc reads 32 columns")]
)
def test_a_misshapen_projection(tmp_path, shape, message):
    stored = made.eagle1(tmp_path) | {"fc.weight": made.noise(*shape)}
    made.write(tmp_path, made.llama_config(), stored, "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match=message):
        read(tmp_path)


def test_another_targets_head_is_refused_with_both_numbers(tmp_path):
    made.eagle1(tmp_path)
    with pytest.raises(PrerequisiteError, match=r"size 32, the target's have size 64"):
        read(tmp_path, target=other_target(hidden=64))
    with pytest.raises(PrerequisiteError, match=r"128 tokens, the target 256"):
        read(tmp_path, target=other_target(vocabulary=256))


def test_another_vocabulary_is_refused_by_the_configuration_alone(tmp_path):
    made.eagle1(tmp_path, embed=False)
    with pytest.raises(PrerequisiteError, match=r"config\.json has 128 tokens, the target 256"):
        read(tmp_path, target=other_target(vocabulary=256))


def test_another_family_says_what_it_is(tmp_path):
    made.eagle1(tmp_path)
    with pytest.raises(UsageError, match=r"arm a: .*family eagle1.*not eagle3") as caught:
        read(tmp_path, "eagle3")
    assert caught.value.hint == 'set drafter = "eagle1" or "eagle2"'


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "auto"])
def test_data_types(tmp_path, dtype):
    made.eagle1(tmp_path)
    wanted = torch.bfloat16 if dtype == "bfloat16" else torch.float32
    assert {t.dtype for t in read(tmp_path, dtype=dtype).tensors.values()} == {wanted}


@pytest.mark.parametrize(
    ("write", "family"), [(made.eagle1_speculators, "eagle1"), (made.eagle3_speculators, "eagle3")]
)
def test_speculators_without_an_algorithm_are_told_by_their_names(tmp_path, write, family):
    write(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["speculators_model_type"], config["speculators_config"]["algorithm"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    head = read(tmp_path)
    assert (head.family, head.layout) == (family, "speculators")
