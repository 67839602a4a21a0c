"""Sizes of an EAGLE head, from the shapes of its tensors wherever they say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.llama_config import rope_of, whole_number

BASE_THETA = 10000.0
"""RoPE base where a head says nothing: that of the authors' training code, never the target's."""


def sizes(
    checkpoint: Checkpoint, sources: Mapping[str, str], config: Mapping[str, Any], odd: list[str]
) -> dict[str, Any]:
    """Fields of ``EagleConfig`` that both families have; notes what is odd.

    Args:
        checkpoint, sources: the head's tensors.
        config: its Llama-like configuration.
        odd: oddities are added here.

    Raises:
        PrerequisiteError: shapes that contradict each other or the number of attention heads.
    """

    def shape(name: str) -> tuple[int, ...]:
        return checkpoint.shape(sources[name])

    hidden = shape("fc.weight")[0]
    layers = 1 + max(int(n.split(".")[1]) for n in sources if n.startswith("layers."))
    heads = whole_number(config, "num_attention_heads", str(checkpoint.path))
    queries = shape("layers.0.self_attn.q_proj.weight")[0]
    keys = shape("layers.0.self_attn.k_proj.weight")[0]
    size = config.get("head_dim") or hidden // heads
    if queries != heads * size:
        if queries % heads:
            raise PrerequisiteError(
                f"{checkpoint.path}: {queries} query rows do not divide into {heads} heads",
                "copy the checkpoint's own config.json into the folder",
            )
        size = queries // heads
        odd.append(f"config.json does not say the head size; {size} by the query projection")
    rope = rope_of(config)
    theta = BASE_THETA if rope.theta is None else rope.theta
    if rope.theta is None:
        odd.append(f"no rope_theta in config.json; {BASE_THETA:.0f} as in the authors' training")
    found = {
        "hidden": hidden,
        "intermediate": shape("layers.0.mlp.gate_proj.weight")[0],
        "heads": heads,
        "kv_heads": keys // size,
        "head_size": size,
        "layers": layers,
        "norm_eps": float(config.get("rms_norm_eps", 1e-6)),
        "rope_theta": theta,
        "rope_scaling": rope.scaling,
        "max_positions": config.get("max_position_embeddings"),
        "attention_bias": "layers.0.self_attn.q_proj.bias" in sources,
        "activation": str(config.get("hidden_act", "silu")),
    }
    _compare(found, config, odd)
    if not isinstance(found["max_positions"], int):
        found["max_positions"] = 2048
        odd.append("no max_position_embeddings in config.json; 2048 as in the authors' training")
    return found


def _compare(found: Mapping[str, Any], config: Mapping[str, Any], odd: list[str]) -> None:
    """Note where the configuration and the tensors differ."""
    for key, field in (
        ("hidden_size", "hidden"),
        ("intermediate_size", "intermediate"),
        ("num_key_value_heads", "kv_heads"),
        ("num_hidden_layers", "layers"),
    ):
        said = config.get(key)
        if said is not None and said != found[field]:
            odd.append(f"config.json says {key} {said}, the tensors {found[field]}")
