"""Published models by hand sums, and configurations that are refused."""

from __future__ import annotations

import pytest

from specbench.errors import PrerequisiteError
from specbench.models.shapes.find import configuration, known_shapes
from specbench.models.shapes.read import read_shape
from specbench.models.shapes.stored import Wanted, read_precision
from specbench.roofline.memory import kv_token_bytes


def read(name, **changed):
    config = {**configuration(name).config, **changed}
    return read_shape(config, name), read_precision(config, Wanted(), name)


def test_llama_8b():
    shape, precision = read("llama-3.1-8b")
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layer = attention + 3 * 4096 * 14336
    assert shape.parameters == 32 * layer + 2 * 128256 * 4096 == 8_029_995_008
    assert kv_token_bytes(shape, precision) == 131_072  # 32 x 2 x 8 heads x 128 x 2 bytes
    assert shape.active == shape.parameters - 128256 * 4096


def test_deepseek_v3():
    shape, precision = read("deepseek-v3")
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys = 7168 * 576 + 512 * 128 * 256
    attention = queries + keys + 128 * 128 * 7168
    expert = 3 * 7168 * 2048
    routed = 58 * (attention + 257 * expert + 7168 * 256)
    dense = 3 * (attention + 3 * 7168 * 18432)
    assert shape.parameters == routed + dense + 2 * 129280 * 7168 == 671_025_397_760
    met = 58 * (attention + 9 * expert + 7168 * 256) + dense + 129280 * 7168
    assert shape.active == met
    assert round(met / 1e9) == 37
    assert [layers.attention.kv_elements for layers in shape.layers] == [576, 576]
    assert kv_token_bytes(shape, precision) == 61 * 576 * 2
    assert (precision.dtype, precision.matrix_bits, precision.kv_bits) == ("float8", 8, 16)


@pytest.mark.parametrize(
    ("name", "billions", "active"),
    [
        ("llama-3.1-70b", 70.6, None),
        ("llama-3.2-1b", 1.24, None),
        ("qwen3-8b", 8.2, None),
        ("qwen3-0.6b", 0.6, None),
        ("qwen3-30b-a3b", 30.5, None),
        ("gpt-oss-20b", 20.9, 3.6),
    ],
)
def test_as_their_makers_count(name, billions, active):
    shape, _ = read(name)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=1e-2)
    assert active is None or shape.active / 1e9 == pytest.approx(active, rel=1e-2)


def test_every_shape_that_ships_is_read():
    assert len(known_shapes()) >= 8
    for name in known_shapes():
        assert read(name)[0].depth == configuration(name).config["num_hidden_layers"]


def test_experts_alone_in_mxfp4():
    _, precision = read("gpt-oss-20b")
    assert (precision.matrix_bits, precision.expert_bits) == (16, 4.25)


def test_half_of_the_layers_have_a_window():
    shape, _ = read("gpt-oss-20b")
    assert [(part.count, part.attention.window) for part in shape.layers] == [(12, 128), (12, None)]


def test_the_language_model_of_several_modalities():
    inner = dict(configuration("llama-3.1-8b").config)
    outer = {"model_type": "mistral3", "text_config": inner, "torch_dtype": "float16"}
    assert read_shape(outer, "x") == read_shape(inner, "x")
    del inner["torch_dtype"]
    assert read_precision(outer, Wanted(), "x").dtype == "float16"


@pytest.mark.parametrize(
    ("quantised", "bits", "dtype"),
    [
        ({"quant_method": "gptq", "bits": 4}, 4, "bfloat16"),
        ({"quant_method": "awq", "bits": 4}, 4, "bfloat16"),
        ({"quant_method": "fp8"}, 8, "float8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
            },
            8,
            "bfloat16",
        ),
    ],
)
def test_quantised_files(quantised, bits, dtype):
    _, precision = read("qwen3-8b", quantization_config=quantised)
    assert (precision.matrix_bits, precision.expert_bits, precision.dtype) == (bits, bits, dtype)


def test_what_is_asked_for_wins():
    config = configuration("deepseek-v3").config
    found = read_precision(config, Wanted("bfloat16", "float8", 4), "x")
    assert (found.dtype, found.matrix_bits, found.kv_bits) == ("bfloat16", 4, 8)
    assert read_precision(config, Wanted("bfloat16"), "x").matrix_bits == 8


def test_a_file_that_names_no_type_is_in_bfloat16():
    _, precision = read("qwen3-8b", torch_dtype=None)
    assert (precision.dtype, precision.matrix_bits, precision.kv_bits) == ("bfloat16", 16, 16)


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("llama-3.1-8b", {"model_type": "mamba2"}, "'mamba2' are not known here"),
        ("llama-3.1-8b", {"model_type": None}, "no model_type"),
        ("llama-3.1-8b", {"hidden_size": "big"}, 'hidden_size = "big"'),
        ("llama-3.1-8b", {"num_attention_heads": 30}, "a divisor of hidden_size"),
        ("llama-3.1-8b", {"layer_types": ["linear_attention"] * 32}, "'linear_attention'"),
        ("llama-3.1-8b", {"layer_types": ["full_attention"]}, "one entry for each of 32 layers"),
        ("deepseek-v3", {"num_experts_per_tok": 300}, "at most 256"),
        ("deepseek-v3", {"first_k_dense_replace": None}, "no first_k_dense_replace"),
        ("qwen3-8b", {"torch_dtype": "float64"}, "'float64'"),
        ("qwen3-8b", {"quantization_config": {"quant_method": "hqq"}}, "(hqq)"),
    ],
)
def test_refused_with_the_reason(name, changed, says):
    with pytest.raises(PrerequisiteError) as refused:
        read(name, **changed)
    assert says in refused.value.message
    assert refused.value.hint or "attention" in says


@pytest.mark.parametrize("key", ["hidden_size", "vocab_size", "num_hidden_layers", "kv_lora_rank"])
def test_a_missing_key_is_named(key):
    config = dict(configuration("deepseek-v3").config)
    del config[key]
    with pytest.raises(PrerequisiteError, match=f"config.json has no {key}"):
        read_shape(config, "x")
