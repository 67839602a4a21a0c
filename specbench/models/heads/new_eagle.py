"""New EAGLE heads: what they add to the features that they read is small."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint
from specbench.models.heads.layouts.llama_config import rope_of, whole_number
from specbench.models.heads.layouts.taps import LEAVING, default_places
from specbench.models.heads.new_maker import SMALL, SPREAD, Maker


def new_eagle1(maker: Maker) -> HeadCheckpoint:
    """A head that repeats the target's feature: its logits are the target's own."""
    config = _eagle_config(maker, 1)
    layer = _layer(maker, config, config.hidden)
    fc = {"fc.weight": maker.passing(2, 1, spread=SPREAD)}
    return HeadCheckpoint("eagle1", maker.layout, config, fc | layer | maker.token_map())


def new_eagle3(maker: Maker) -> HeadCheckpoint:
    """A head that passes the upper feature on, through the target's norm and projection."""
    config = _eagle_config(maker, 3)
    layer = _layer(maker, config, 2 * config.hidden)
    norms = {f"layers.0.{name}.weight": maker.ones() for name in ("input_layernorm", "hidden_norm")}
    (norm,) = maker.from_target("model.norm.weight")
    tensors = {"fc.weight": maker.passing(3, 2), "norm.weight": norm} | layer | norms
    return HeadCheckpoint("eagle3", maker.layout, config, tensors | maker.token_map())


def _eagle_config(maker: Maker, version: int) -> EagleConfig:
    target, given = maker.target, maker.target.config
    where = maker.files.path.name
    heads = whole_number(given, "num_attention_heads", where)
    rope = rope_of(given, where)
    common: dict[str, Any] = {
        "hidden": target.hidden,
        "target_hidden": target.hidden,
        "intermediate": whole_number(given, "intermediate_size", where),
        "heads": heads,
        "kv_heads": int(given.get("num_key_value_heads") or heads),
        "head_size": int(given.get("head_dim") or target.hidden // heads),
        "layers": 1,
        "vocabulary": target.vocabulary,
        "draft_vocabulary": maker.drafted,
        "norm_eps": float(given.get("rms_norm_eps", 1e-6)),
        "rope_theta": rope.theta or 10000.0,
        "rope_scaling": rope.scaling,
        "max_positions": whole_number(given, "max_position_embeddings", where),
    }
    if version == 1:
        return EagleConfig(1, **common)
    places = default_places(target.layers)
    if maker.layout == "specforge":
        # the same streams, counted as SpecForge does
        places = tuple((layer - 1, LEAVING) for layer, _ in places)
    taps = tuple(Tap(*place) for place in places)
    return EagleConfig(3, **common, final_norm=True, taps=taps)


def _layer(maker: Maker, config: EagleConfig, width: int) -> dict[str, Tensor]:
    """Layer 0 of an EAGLE head; what it adds to the residual stream is small."""
    size, inner = config.hidden, config.intermediate
    query, key = config.heads * config.head_size, config.kv_heads * config.head_size
    return {
        "layers.0.self_attn.q_proj.weight": maker.noise(query, width),
        "layers.0.self_attn.k_proj.weight": maker.noise(key, width),
        "layers.0.self_attn.v_proj.weight": maker.noise(key, width),
        "layers.0.self_attn.o_proj.weight": maker.noise(size, query, spread=SMALL),
        "layers.0.mlp.gate_proj.weight": maker.noise(inner, size),
        "layers.0.mlp.up_proj.weight": maker.noise(inner, size),
        "layers.0.mlp.down_proj.weight": maker.noise(size, inner, spread=SMALL),
        "layers.0.post_attention_layernorm.weight": maker.ones(),
    }
