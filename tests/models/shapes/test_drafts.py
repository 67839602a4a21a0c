"""Drafts: models, heads in folders and heads that are made up."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.shapes.draft import draft_of
from specbench.models.shapes.find import configuration
from specbench.models.shapes.read import read_shape
from specbench.models.shapes.stored import Wanted, read_precision
from specbench.roofline.memory import kv_token_bytes
from tests.models.heads import fixtures as made

SMOLLM2 = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}
H = 576
LAYER = 2 * H * H + 2 * H * 192 + 3 * H * 1536
"""Of SmolLM2's own layers."""


def draft(name, target="llama-3.1-8b", drafted=None):
    found = configuration(str(target))
    stored = read_shape(found.config, "target"), read_precision(found.config, Wanted(), "target")
    return draft_of(str(name), found, stored, Wanted(), drafted)


@pytest.fixture
def smollm2(tmp_path):
    """The demo model's configuration, without weights."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMOLLM2))
    return file


def test_eagle3_is_a_layer_with_twice_the_input_behind_three_hidden_states():
    shape, precision = draft("eagle3")
    attention = 2 * 4096 * (4096 + 2 * 1024) + 4096 * 4096
    layer = 3 * 4096 * 4096 + attention + 3 * 4096 * 14336
    assert shape.matrices == layer
    assert shape.parameters == layer + 32000 * 4096
    assert kv_token_bytes(shape, precision) == 2 * 8 * 128 * 2
    assert draft("eagle3", drafted=8000)[0].output_rows == 8000


def test_mtp_is_the_last_layer_with_the_ends_of_the_target():
    shape, precision = draft("mtp", "deepseek-v3")
    experts = 256 * 3 * 7168 * 2048
    target = read_shape(configuration("deepseek-v3").config, "x")
    last = target.layers[-1].matrices + experts
    assert shape.parameters == last + 2 * 7168 * 7168
    assert shape.output_rows == 129280
    assert kv_token_bytes(shape, precision) == 576 * 2
    assert precision.matrix_bits == 8  # stored with its target


def test_mtp_is_of_the_last_layer_whichever_kinds_come_first(tmp_path):
    config = {**configuration("qwen3-30b-a3b").config, "mlp_only_layers": [1, 2]}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    shape, _ = draft("mtp", file)
    assert shape.expert_parameters == 128 * 3 * 2048 * 768


def test_medusa_answers_at_once_and_keeps_nothing():
    shape, precision = draft("medusa")
    assert shape.parameters == 5 * (4096 * 4096 + 128256 * 4096)
    assert (shape.answers, kv_token_bytes(shape, precision)) == (5, 0)


def test_heads_are_not_quantised_with_their_target():
    found = configuration("deepseek-v3")
    _, precision = draft("medusa", "deepseek-v3")
    assert (precision.dtype, precision.matrix_bits) == ("bfloat16", 16)
    assert read_precision(found.config, Wanted(), "x").matrix_bits == 8


def test_a_draft_model_is_read_as_a_target_is():
    shape, precision = draft("llama-3.2-1b", "llama-3.1-70b")
    assert shape == replace(read_shape(configuration("llama-3.2-1b").config, "llama-3.2-1b"))
    assert precision.dtype == "bfloat16"


def test_bits_count_for_the_target_alone():
    found = configuration("llama-3.1-70b")
    wanted = Wanted("float16", None, 4)
    stored = read_shape(found.config, "x"), read_precision(found.config, wanted, "x")
    _, precision = draft_of("llama-3.2-1b", found, stored, wanted)
    assert (precision.dtype, precision.matrix_bits) == ("float16", 16)


def test_shipped_eagle3(smollm2):
    shape, precision = draft("zoo:smollm2-135m-eagle3", smollm2)
    # queries, keys and values from two hidden states
    wide = LAYER + H * (576 + 2 * 192)
    assert shape.matrices == 3 * H * H + wide
    assert (shape.output_rows, shape.own_output, shape.own_embedding) == (8192, False, False)
    assert shape.parameters == shape.matrices
    assert kv_token_bytes(shape, precision) == 2 * 3 * 64 * 4  # runs in the target's float32


def test_shipped_mtp(smollm2):
    shape, _ = draft("zoo:smollm2-135m-mtp", smollm2)
    assert shape.parameters == 2 * H * H + LAYER
    assert shape.output_rows == 8192


def test_shipped_medusa(smollm2):
    shape, _ = draft("zoo:smollm2-135m-medusa", smollm2)
    assert shape.parameters == 3 * 3 * H * H
    assert (shape.answers, shape.output_uses, shape.output_rows) == (3, 3, 8192)


def test_medusa_with_projections_of_its_own(tmp_path):
    made.medusa_v1(tmp_path / "head")
    target = tmp_path / "target.json"
    target.write_text(json.dumps(made.llama_config(num_hidden_layers=made.LAYERS)))
    shape, _ = draft(tmp_path / "head", target)
    assert (shape.answers, shape.output_uses) == (5, 1)
    assert shape.own_output
    assert shape.output_rows == 5 * 128


def test_a_head_for_another_target_is_refused():
    with pytest.raises(PrerequisiteError):
        draft("zoo:smollm2-135m-mtp", "llama-3.1-8b")


@pytest.mark.parametrize(
    ("name", "target", "drafted", "error", "says"),
    [
        ("zoo:smollm2-135m-bigram", "llama-3.1-8b", None, UsageError, "bigram table"),
        ("eagle3", "deepseek-v3", None, PrerequisiteError, "latent attention"),
        ("eagle3", "llama-3.1-8b", 200_000, UsageError, "the target has 128256"),
        ("llama-3.2-1b", "llama-3.1-8b", 100, UsageError, "--draft-vocab with the draft"),
        ("eagle9", "llama-3.1-8b", None, UsageError, "unknown model 'eagle9'"),
    ],
)
def test_refused_with_the_reason(name, target, drafted, error, says):
    with pytest.raises(error) as refused:
        draft(name, target, drafted)
    assert says in refused.value.message


def test_the_configuration_of_a_head_is_not_taken_for_a_small_model(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**SMOLLM2, "num_hidden_layers": 1}))
    with pytest.raises(PrerequisiteError, match="configuration of a head"):
        draft(file)
