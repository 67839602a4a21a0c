"""Tiny targets with multi-token prediction layers among their shards, and speculators' own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.models.heads.fixtures import (
    HIDDEN,
    LAYERS,
    VOCABULARY,
    decoder,
    llama_config,
    noise,
    shard,
    small_model,
    speculators_config,
    write,
)

MAIN, ENDS, MODULE = "model-1.safetensors", "model-2.safetensors", "model-3.safetensors"
"""Shards: the target's layers, its embedding and output projection, the MTP module."""

FP8 = torch.float8_e4m3fn
LATENT = 160
"""Rows of one projection: more than one block of 128, and no multiple of it."""


def _target(folder: Path, module: dict[str, Tensor], config: dict[str, Any]) -> None:
    whole = small_model()
    ends = {n: whole.pop(n) for n in ("model.embed_tokens.weight", "lm_head.weight")}
    shard(folder, {MAIN: whole, ENDS: ends, MODULE: module}, config)
    (folder / "tokenizer.json").write_text("{}")


def nextn(
    folder: Path, *, model_type: str = "deepseek_v3", fp8: bool = False, copies: str = "equal"
) -> dict[str, Tensor]:
    """DeepSeek's and GLM's module: layer L with its own norms, projection and shared head.

    Args:
        fp8: two projections in 8-bit floats with a scale per block of 128 x 128.
        copies: its embedding and head are ``equal`` to the target's, ``other``, or ``none``.
    """
    p = f"model.layers.{LAYERS}."
    module = {
        f"{p}enorm.weight": noise(HIDDEN, seed=1),
        f"{p}hnorm.weight": noise(HIDDEN, seed=2),
        f"{p}eh_proj.weight": noise(HIDDEN, 2 * HIDDEN),
        f"{p}shared_head.norm.weight": noise(HIDDEN, seed=3),
        f"{p}input_layernorm.weight": noise(HIDDEN, seed=4),
        f"{p}post_attention_layernorm.weight": noise(HIDDEN, seed=5),
        f"{p}self_attn.kv_b_proj.weight": noise(LATENT, HIDDEN),
        f"{p}mlp.gate.weight": noise(4, HIDDEN),
        f"{p}mlp.gate.e_score_correction_bias": noise(4),
        f"{p}mlp.experts.0.gate_proj.weight": noise(8, HIDDEN),
        f"{p}mlp.shared_experts.down_proj.weight": noise(HIDDEN, 8),
    }
    if copies != "none":
        moved = 0.0 if copies == "equal" else 1.0
        module[f"{p}embed_tokens.weight"] = noise(VOCABULARY, HIDDEN, seed=20) + moved
        module[f"{p}shared_head.head.weight"] = noise(VOCABULARY, HIDDEN, seed=21) + moved
    config = llama_config(
        architectures=["DeepseekV3ForCausalLM"],
        model_type=model_type,
        num_hidden_layers=LAYERS,
        num_nextn_predict_layers=1,
    )
    if fp8:
        name = f"{p}self_attn.kv_b_proj.weight"
        module[name] = module[name].to(FP8)
        module[f"{name}_scale_inv"] = torch.tensor([[0.5], [4.0]])
        entrance = f"{p}eh_proj.weight"
        module[entrance] = module[entrance].to(FP8)
        module[f"{entrance}_scale_inv"] = torch.tensor([[0.25]])
        config["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "weight_block_size": [128, 128],
        }
    _target(folder, module, config)
    return module


def mimo(folder: Path) -> dict[str, Tensor]:
    """MiMo-7B's module: a Qwen2 layer with biases, the hidden state first in the projection."""
    p = "model.mtp_layers.0."
    module = {
        f"{p}token_layernorm.weight": noise(HIDDEN, seed=1),
        f"{p}hidden_layernorm.weight": noise(HIDDEN, seed=2),
        f"{p}input_proj.weight": noise(HIDDEN, 2 * HIDDEN),
        f"{p}final_layernorm.weight": noise(HIDDEN, seed=3),
        f"{p}input_layernorm.weight": noise(HIDDEN, seed=4),
        **decoder(p, HIDDEN, bias=True),
    }
    config = llama_config(
        architectures=["MiMoForCausalLM"],
        model_type="mimo",
        num_hidden_layers=LAYERS,
        num_nextn_predict_layers=1,
    )
    _target(folder, module, config)
    return module


def speculators(folder: Path, model_type: str = "qwen3") -> dict[str, Tensor]:
    """speculators' module in a folder of its own."""
    p = "mtp_layers.0."
    module = {
        f"{p}token_layernorm.weight": noise(HIDDEN, seed=1),
        f"{p}hidden_layernorm.weight": noise(HIDDEN, seed=2),
        f"{p}input_proj.weight": noise(HIDDEN, 2 * HIDDEN),
        f"{p}final_layernorm.weight": noise(HIDDEN, seed=3),
        f"{p}input_layernorm.weight": noise(HIDDEN, seed=4),
        **decoder(p, HIDDEN),
    }
    config = speculators_config("mtp", num_nextn_predict_layers=1)
    config["transformer_layer_config"]["model_type"] = model_type
    return write(folder, config, module, "model.safetensors")


def qwen_next(folder: Path) -> dict[str, Tensor]:
    """Qwen3-Next's module beside its target: read, run elsewhere."""
    module = {
        "mtp.fc.weight": noise(HIDDEN, 2 * HIDDEN),
        "mtp.pre_fc_norm_hidden.weight": noise(HIDDEN, seed=1),
        "mtp.pre_fc_norm_embedding.weight": noise(HIDDEN, seed=2),
        "mtp.norm.weight": noise(HIDDEN, seed=3),
        "mtp.layers.0.input_layernorm.weight": noise(HIDDEN, seed=4),
        **decoder("mtp.layers.0.", HIDDEN),
    }
    config = llama_config(
        model_type="qwen3_next", num_hidden_layers=LAYERS, mtp_num_hidden_layers=1
    )
    _target(folder, module, config)
    return module


def mimo_v2(folder: Path) -> dict[str, Tensor]:
    """MiMo-V2's names: recognised, run elsewhere."""
    p = "model.mtp.layers.0."
    module = {
        f"{p}enorm.weight": noise(HIDDEN),
        f"{p}hnorm.weight": noise(HIDDEN),
        f"{p}eh_proj.weight": noise(HIDDEN, 2 * HIDDEN),
        f"{p}final_layernorm.weight": noise(HIDDEN),
    }
    _target(folder, module, llama_config(model_type="mimo_v2", num_hidden_layers=LAYERS))
    return module
