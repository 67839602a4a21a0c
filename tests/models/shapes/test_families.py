"""Every family against the tensors that transformers makes of the same configuration."""

from __future__ import annotations

import pytest

from specbench.models.shapes.families import FAMILIES
from specbench.models.shapes.read import read_shape

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "intermediate_size": 96,
    "vocab_size": 160,
    "pad_token_id": 0,
}
ROUTED = {"num_experts_per_tok": 2}
OWN = ROUTED | {"moe_intermediate_size": 40}
LATENT = {
    "q_lora_rank": 20,
    "kv_lora_rank": 12,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 14,
}
BEHIND = OWN | {"n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 2}
MORE = {
    "mixtral": ROUTED | {"num_local_experts": 4},
    "olmoe": ROUTED | {"num_experts": 4},
    "gpt_oss": ROUTED | {"num_local_experts": 4},
    "qwen2_moe": OWN
    | {"num_experts": 8, "shared_expert_intermediate_size": 56, "decoder_sparse_step": 2},
    "qwen3_moe": OWN | {"num_experts": 8, "mlp_only_layers": [1]},
    "glm4_moe": BEHIND | {"n_group": 1, "topk_group": 1},
    "deepseek_v2": BEHIND | LATENT | {"n_group": 1, "topk_group": 1},
    "deepseek_v3": BEHIND | LATENT | {"n_group": 1, "topk_group": 1, "num_key_value_heads": 4},
}
NO_HEAD_DIM = ("olmo", "olmo2", "olmo3", "olmoe", "phi3", "deepseek_v2", "deepseek_v3")
"""Their heads are the hidden size divided by their number, or of MLA's sizes."""
READ_AS = {"mimo": "qwen2", "kimi_k2": "deepseek_v3"}
"""Types that transformers does not have -> the type with the same layers."""
WINDOWED = ("mistral", "ministral", "gemma2", "gemma3_text", "gpt_oss", "olmo3", "qwen2", "qwen3")

KNOWN = sorted(FAMILIES.keys() - READ_AS.keys())


def configured(kind):
    transformers = pytest.importorskip("transformers")
    if kind not in transformers.CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    sizes = {
        key: size for key, size in SIZES.items() if key != "head_dim" or kind not in NO_HEAD_DIM
    }
    return transformers.CONFIG_MAPPING[kind](**{**sizes, **MORE.get(kind, {})})


def written(config):
    """As a ``config.json`` holds it."""
    return {**config.to_dict(), "model_type": config.model_type}


def matrices(config):
    """Parameters of transformers' model that are matrices, tied ones once; nothing is allocated."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    sizes = [
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.dim() > 1 and not name.endswith("bias")
    ]
    return sum(sizes)


@pytest.mark.parametrize("kind", KNOWN)
def test_parameters(kind):
    config = configured(kind)
    assert read_shape(written(config), kind).parameters == matrices(config)


@pytest.mark.parametrize("kind", KNOWN)
def test_files_that_do_not_say_whether_ends_are_tied(kind):
    config = configured(kind)
    silent = {k: v for k, v in written(config).items() if k != "tie_word_embeddings"}
    assert read_shape(silent, kind).parameters == matrices(config)


@pytest.mark.parametrize("kind", WINDOWED)
def test_windows_of_files_that_do_not_list_their_layers(kind):
    """The layers that transformers lists, from the older keys."""
    config = configured(kind)
    said = written(config) | {"sliding_window": 32, "use_sliding_window": True}
    if kind.startswith("qwen"):
        said |= {"max_window_layers": 4, "layer_types": ["full_attention"] * 4}
        said["layer_types"] += ["sliding_attention"] * 2
    if kind == "mistral":
        said["layer_types"] = ["sliding_attention"] * 6
    silent = {key: value for key, value in said.items() if key != "layer_types"}
    shapes = [read_shape(one, kind) for one in (said, silent)]
    windows = [[(part.count, part.attention.window) for part in shape.layers] for shape in shapes]
    assert windows[0] == windows[1]
    assert any(window == 32 for _, window in windows[0])


@pytest.mark.parametrize(("kind", "other"), READ_AS.items())
def test_types_that_transformers_does_not_have(kind, other):
    config = written(configured(other))
    assert read_shape(config | {"model_type": kind}, kind).parameters == matrices(configured(other))
