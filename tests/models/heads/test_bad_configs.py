"""Configurations with values of the wrong kind: refused by key and value, shown by inspection."""

from __future__ import annotations

import json

import pytest

from specbench.errors import PrerequisiteError
from specbench.models.heads.describe import describe_heads
from specbench.models.heads.files import open_checkpoint
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures
from tests.models.heads.reading import read

IDS = "eagle_aux_hidden_state_layer_ids"


def changed(folder, key, value, inner=None):
    """A value of ``config.json``, at its top or inside of an object."""
    file = folder / "config.json"
    config = json.loads(file.read_text())
    (config if inner is None else config[inner])[key] = value
    file.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("write", "key", "value"),
    [
        *[(made.eagle3, "num_aux_hidden_states", v) for v in (None, "3", 0, 3.5, True, [])],
        *[(made.eagle3, IDS, v) for v in (3, "2, 4, 5", [2, "4", 5], [2, None, 5], {"a": 1})],
        *[(made.eagle3, "rms_norm_eps", v) for v in (None, "1e-5", [], True, 0, -1.0)],
        *[(made.eagle3, "hidden_act", v) for v in (None, 1, "novel", {})],
        *[(made.eagle3, "head_dim", v) for v in ("16", 0, -1, 16.0)],
        *[(made.eagle3, "num_attention_heads", v) for v in (None, "4", 0)],
        *[(made.eagle3, "rope_theta", v) for v in ("1e4", [], -1)],
        *[(made.eagle3, "rope_scaling", v) for v in ("linear", 2.0, [1])],
        *[(made.eagle3, "rope_parameters", v) for v in ("linear", 2.0, [1])],
        *[(made.eagle3, "max_position_embeddings", v) for v in ("512", 0)],
        *[(made.eagle3, "vocab_size", v) for v in ("128", [128])],
        *[(made.eagle3, name, "false") for name in ("norm_output", "norm_before_residual")],
        *[(made.eagle3, name, 1) for name in ("fc_norm", "norm_before_fc", "tie_word_embeddings")],
        *[(made.eagle3, "eagle_config", v) for v in ("yes", [1])],
        (made.eagle1, "bias", "no"),
        (made.eagle1_speculators, "fusion_bias", "no"),
        (made.eagle1_speculators, "transformer_layer_config", "llama"),
        (made.medusa_v1, "vocab_size", "128"),
        (made.medusa_vllm, "original_lm_head", "true"),
        (mtp_fixtures.mimo, "vocab_size", "128"),
        (mtp_fixtures.speculators, "transformer_layer_config", [1]),
    ],
)
def test_values_of_the_wrong_kind(tmp_path, write, key, value):
    write(tmp_path)
    changed(tmp_path, key, value)
    with pytest.raises(PrerequisiteError) as caught:
        read(tmp_path)
    assert f"config.json says {key} = {json.dumps(value)}" in caught.value.message
    (head,) = describe_heads(open_checkpoint(tmp_path), None).native
    assert head.problem == caught.value.message


@pytest.mark.parametrize(
    "value", ["fp8", {"weight_block_size": 128}, {"weight_block_size": [0, 1]}]
)
def test_blocks_of_scales(tmp_path, value):
    mtp_fixtures.nextn(tmp_path, fp8=True)
    changed(tmp_path, "quantization_config", value)
    with pytest.raises(PrerequisiteError, match=r"quantization_config|weight_block_size"):
        read(tmp_path)


@pytest.mark.parametrize("value", [5, "LlamaForCausalLM", {"a": 1}, [None], [3], []])
@pytest.mark.parametrize("key", ["architectures", "text_config", "model_type"])
def test_what_only_names_the_exporter_is_never_needed(tmp_path, key, value):
    made.eagle3(tmp_path)
    changed(tmp_path, key, value)
    assert read(tmp_path).family == "eagle3"


@pytest.mark.parametrize("kind", ["dynamic", "longrope", "novel", None])
def test_rope_that_is_not_run_is_refused_by_name(tmp_path, kind):
    made.eagle3(tmp_path, rope_scaling={"rope_type": kind, "factor": 2.0})
    with pytest.raises(PrerequisiteError, match=f"RoPE of type {kind!r}"):
        read(tmp_path)


def test_parameters_of_rope_without_a_type_are_refused(tmp_path):
    made.eagle3(tmp_path, rope_parameters={"rope_theta": 1e6, "factor": 2.0})
    with pytest.raises(PrerequisiteError, match="RoPE of type None"):
        read(tmp_path)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    "scaling",
    [
        {"mrope_interleaved": True, "mrope_section": [24, 20, 20]},
        {"type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": "default", "type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": None, "mrope_section": [16, 24, 24]},
    ],
)
def test_rope_of_images_is_plain_for_text(tmp_path, key, scaling):
    made.eagle3(tmp_path, **{"rope_theta": 5e6, key: scaling})
    config = read(tmp_path).config
    assert (config.rope_theta, config.rope_scaling) == (5e6, None)


def test_a_number_that_is_not_there(tmp_path):
    made.eagle3(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["num_attention_heads"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(PrerequisiteError, match=r"config\.json has no num_attention_heads"):
        read(tmp_path)


@pytest.mark.parametrize(
    "key", ["head_dim", "rope_scaling", "rope_parameters", IDS, "eagle_config", "norm_output"]
)
def test_null_is_not_said_where_programs_write_it(tmp_path, key):
    made.eagle3(tmp_path)
    changed(tmp_path, key, None)
    assert read(tmp_path).config.head_size == 16
