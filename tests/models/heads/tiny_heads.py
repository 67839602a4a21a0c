"""Tiny targets and heads with random weights; tensor names and shapes are written out by hand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from specbench.models.heads.configs import EagleConfig, MtpConfig, TargetShape
from specbench.models.load import LoadedModel
from specbench.models.locate import Location
from tests.models.tiny import byte_level_tokens

VOCABULARY = len(byte_level_tokens())
"""Rows that the tokenizer of ``tests.models.tiny`` has ids for."""
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
EXPERTS: dict[str, Any] = {
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}


def tiny_model(family: str, seed: int = 0, **changes: Any) -> Any:
    """A target with random weights: ``llama`` (8 layers), ``deepseek``, ``glm4_moe``, ``mimo``."""
    import transformers as hf

    torch.manual_seed(seed)
    if family == "llama":
        sizes = SIZES | {"num_hidden_layers": 8} | changes
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes))
    elif family == "mimo":
        sizes = SIZES | {"num_hidden_layers": 3} | changes
        model = hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes))
    elif family == "glm4_moe":
        glm = {"num_hidden_layers": 3, "head_dim": 12, "attention_bias": True, "use_qk_norm": True}
        model = hf.Glm4MoeForCausalLM(hf.Glm4MoeConfig(**SIZES | EXPERTS | glm | changes))
    else:
        latent = {
            "num_hidden_layers": 3,
            "num_key_value_heads": 4,
            "q_lora_rank": 12,
            "kv_lora_rank": 10,
            "qk_nope_head_dim": 6,
            "qk_rope_head_dim": 4,
            "v_head_dim": 7,
        }
        model = hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**SIZES | EXPERTS | latent | changes))
    # Norms that are all ones would hide whether they are applied.
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, 1.0, 0.4)
        elif name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval().requires_grad_(False)


def loaded(model: Any) -> LoadedModel:
    """A model as if it had been loaded; it has no files and no tokenizer."""
    return LoadedModel(
        model=model,
        tokenizer=None,
        config=model.config,
        location=Location("folder", "tiny", None, None, "made for tests"),
        dtype=model.dtype,
        device=torch.device("cpu"),
        weight_hash="",
        weight_bytes=0,
        context_limit=model.config.max_position_embeddings,
        eos_ids=(model.config.eos_token_id,),
        real_vocab_size=model.config.vocab_size,
    )


def eagle_shapes(c: EagleConfig, own: Collection[str] = ()) -> dict[str, list[int]]:
    """Names and shapes of an EAGLE head; ``own`` names optional tensors that it has."""
    joined = 2 * c.hidden if c.version == 1 else len(c.taps) * c.target_hidden
    shapes = {"fc.weight": [c.hidden, joined]}
    if c.fc_bias:
        shapes["fc.bias"] = [c.hidden]
    if c.norm_before_fc:
        shapes["input_norm.weight"] = [joined]
    if c.fc_norm:
        shapes |= {f"fc_norm.{i}.weight": [c.target_hidden] for i in range(len(c.taps))}
    rows = {"q": c.heads * c.head_size, "k": c.kv_heads * c.head_size}
    rows["v"] = rows["k"]
    for i in range(c.layers):
        layer = f"layers.{i}"
        joins = c.version == 3 and i == 0
        for part, size in rows.items():
            name = f"{layer}.self_attn.{part}_proj"
            shapes[f"{name}.weight"] = [size, 2 * c.hidden if joins else c.hidden]
            if c.attention_bias:
                shapes[f"{name}.bias"] = [size]
        shapes[f"{layer}.self_attn.o_proj.weight"] = [c.hidden, rows["q"]]
        shapes |= _mlp(f"{layer}.mlp", c.hidden, c.intermediate)
        shapes[f"{layer}.post_attention_layernorm.weight"] = [c.hidden]
        if c.version == 3 or i > 0 or c.input_norm:
            shapes[f"{layer}.input_layernorm.weight"] = [c.hidden]
        if joins:
            shapes[f"{layer}.hidden_norm.weight"] = [c.hidden]
    if c.final_norm:
        shapes["norm.weight"] = [c.hidden]
    optional = {
        "embed_tokens.weight": [c.vocabulary, c.hidden],
        "lm_head.weight": [c.draft_vocabulary, c.hidden],
        "layers.0.self_attn.o_proj.bias": [c.hidden],
    }
    return shapes | {name: optional[name] for name in own}


def mtp_shapes(c: MtpConfig, own: Collection[str] = ()) -> dict[str, list[int]]:
    """Names and shapes of an MTP layer; ``own`` names optional tensors that it has."""
    s = c.target.config
    size, heads, attention = s.hidden_size, s.num_attention_heads, "layer.self_attn"
    shapes = {f"{name}.weight": [size] for name in ("enorm", "hnorm", "norm")}
    shapes["eh_proj.weight"] = [size, 2 * size]
    for name in ("input_layernorm", "post_attention_layernorm"):
        shapes[f"layer.{name}.weight"] = [size]
    if c.family == "deepseek":
        keys = s.qk_nope_head_dim + s.qk_rope_head_dim
        latent = {
            "kv_a_proj_with_mqa": [s.kv_lora_rank + s.qk_rope_head_dim, size],
            "kv_a_layernorm": [s.kv_lora_rank],
            "kv_b_proj": [heads * (s.qk_nope_head_dim + s.v_head_dim), s.kv_lora_rank],
            "o_proj": [size, heads * s.v_head_dim],
        }
        if s.q_lora_rank is None:
            latent["q_proj"] = [heads * keys, size]
        else:
            latent["q_a_proj"] = [s.q_lora_rank, size]
            latent["q_a_layernorm"] = [s.q_lora_rank]
            latent["q_b_proj"] = [heads * keys, s.q_lora_rank]
        shapes |= {f"{attention}.{name}.weight": shape for name, shape in latent.items()}
    else:
        each = s.head_dim if c.family == "glm4_moe" else size // heads
        rows = {"q": heads * each, "k": s.num_key_value_heads * each}
        rows["v"] = rows["k"]
        for part, count in rows.items():
            shapes[f"{attention}.{part}_proj.weight"] = [count, size]
            shapes[f"{attention}.{part}_proj.bias"] = [count]
        shapes[f"{attention}.o_proj.weight"] = [size, rows["q"]]
        if c.family == "glm4_moe":
            norms = ("q", "k") if s.use_qk_norm else ()
            shapes |= {f"{attention}.{part}_norm.weight": [each] for part in norms}
    shapes |= _mlp("layer.mlp", size, s.intermediate_size) if c.family == "mimo" else _moe(s)
    optional = {"embed_tokens.weight": [s.vocab_size, size], "head.weight": [s.vocab_size, size]}
    return shapes | {name: optional[name] for name in own}


def _mlp(name: str, size: int, inner: int) -> dict[str, list[int]]:
    return {
        f"{name}.gate_proj.weight": [inner, size],
        f"{name}.up_proj.weight": [inner, size],
        f"{name}.down_proj.weight": [size, inner],
    }


def _moe(s: Any) -> dict[str, list[int]]:
    shapes = {
        "layer.mlp.gate.weight": [s.n_routed_experts, s.hidden_size],
        "layer.mlp.gate.e_score_correction_bias": [s.n_routed_experts],
    }
    for expert in range(s.n_routed_experts):
        shapes |= _mlp(f"layer.mlp.experts.{expert}", s.hidden_size, s.moe_intermediate_size)
    inner = s.n_shared_experts * s.moe_intermediate_size
    return shapes | _mlp("layer.mlp.shared_experts", s.hidden_size, inner)


def random_tensors(shapes: dict[str, list[int]], seed: int = 0) -> dict[str, Tensor]:
    """Weights whose outputs keep the size of their inputs; norms near 1."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes.items():
        drawn = torch.randn(shape, generator=generator)
        if len(shape) == 2:
            drawn = drawn * shape[1] ** -0.5
        elif "norm" in name:
            drawn = 1 + 0.4 * drawn
        else:
            drawn = 0.2 * drawn
        tensors[name] = drawn
    return tensors


def eagle_config(version: int, **changes: Any) -> EagleConfig:
    """A head for the tiny Llama; heads * head_size is not H."""
    from specbench.decoding.protocols import Tap

    values: dict[str, Any] = {
        "version": version,
        "hidden": 32,
        "target_hidden": 32,
        "intermediate": 40,
        "heads": 4,
        "kv_heads": 2,
        "head_size": 12,
        "layers": 1,
        "vocabulary": VOCABULARY,
        "draft_vocabulary": VOCABULARY,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_positions": 256,
    }
    if version == 3:
        values["taps"] = (Tap(2, "entering"), Tap(4, "entering"), Tap(5, "entering"))
        values["final_norm"] = True
    return EagleConfig(**values | changes)


def mtp_config(family: str, target: LoadedModel, **changes: Any) -> MtpConfig:
    """A layer for a tiny target."""
    values: dict[str, Any] = {
        "family": family,
        "layers": 1,
        "order": "hidden_first" if family == "mimo" else "embedding_first",
        "recycle": "post_norm" if family == "glm4_moe" else "pre_norm",
        "zero_first": True,
        "target": TargetShape.of(target.config),
    }
    return MtpConfig(**values | changes)
