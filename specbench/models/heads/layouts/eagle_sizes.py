"""Sizes of an EAGLE head, from the shapes of its tensors wherever they say it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.llama_config import (
    positive,
    rope_of,
    said,
    stated,
    whole_number,
    wrong,
)

BASE_THETA = 10000.0
"""RoPE base where a head says nothing: that of the authors' training code, never the target's."""

ACTIVATIONS = (
    *("gelu", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh"),
    *("hardswish", "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6"),
    *("sigmoid", "silu", "swish", "tanh"),
)
"""Of transformers, those without weights of their own."""


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
    where = str(checkpoint.path)
    queries = shape("layers.0.self_attn.q_proj.weight")[0]
    keys = shape("layers.0.self_attn.k_proj.weight")[0]
    heads, size = _attention(config, where, hidden, (queries, keys), odd)
    rope = rope_of(config, where)
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
        "norm_eps": positive(
            stated(config, "rms_norm_eps", float, 1e-6, where), "rms_norm_eps", where
        ),
        "rope_theta": positive(theta, "rope_theta", where),
        "rope_scaling": rope.scaling,
        "max_positions": positive(
            said(config, "max_position_embeddings", int, where), "max_position_embeddings", where
        ),
        "attention_bias": "layers.0.self_attn.q_proj.bias" in sources,
        "activation": _activation(config, where),
    }
    _compare(found, config, odd)
    if found["max_positions"] is None:
        found["max_positions"] = 2048
        odd.append("no max_position_embeddings in config.json; 2048 as in the authors' training")
    return found


def _attention(
    config: Mapping[str, Any], where: str, hidden: int, rows: tuple[int, int], odd: list[str]
) -> tuple[int, int]:
    """Heads and their size, from rows of the query and the key projection."""
    queries, keys = rows
    heads = whole_number(config, "num_attention_heads", where)
    named = positive(said(config, "head_dim", int, where), "head_dim", where)
    size = named or hidden // heads
    if queries != heads * size:
        if queries % heads or not queries:
            raise PrerequisiteError(
                f"{where}: {queries} query rows do not divide into {heads} heads",
                "copy the checkpoint's own config.json into the folder",
            )
        size = queries // heads
        odd.append(
            f"config.json does not say the head size; {size} by the query projection"
            if named is None
            else f"config.json says head_dim {named}, the tensors {size}"
        )
    if keys % size or not keys or heads % (keys // size):
        raise PrerequisiteError(
            f"{where}: {keys} key rows of head size {size} do not go with {heads} heads",
            "copy the checkpoint's own config.json into the folder",
        )
    return heads, size


def _activation(config: Mapping[str, Any], where: str) -> str:
    name = str(stated(config, "hidden_act", str, "silu", where))
    if name not in ACTIVATIONS:
        raise wrong("hidden_act", name, where, f"one of {', '.join(ACTIVATIONS)}")
    return name


def _compare(found: Mapping[str, Any], config: Mapping[str, Any], odd: list[str]) -> None:
    """Note where the configuration and the tensors differ."""
    for key, field in (
        ("hidden_size", "hidden"),
        ("intermediate_size", "intermediate"),
        ("num_key_value_heads", "kv_heads"),
        ("num_hidden_layers", "layers"),
    ):
        named = config.get(key)
        if named is not None and named != found[field]:
            odd.append(f"config.json says {key} {named}, the tensors {found[field]}")
