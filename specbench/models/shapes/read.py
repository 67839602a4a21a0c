"""From a model's ``config.json`` to the shape that its bytes and FLOPs follow from; no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.layouts.llama_config import (
    said,
    stated,
    text_config,
    whole_number,
    wrong,
)
from specbench.models.shapes.families import FAMILIES, Family
from specbench.roofline.shape import Attention, Experts, Layers, Shape, grouped, latent

Layer = tuple[int, Attention, Experts | None]
"""Matrices, attention and experts of one layer, as in ``Layers``."""


def read_shape(config: Mapping[str, Any], name: str) -> Shape:
    """The shape behind a configuration.

    Args:
        config: ``config.json``; of a model of several modalities the language model's part counts.
        name: for messages and tables.

    Raises:
        PrerequisiteError: a family that is not known here, or a key that is missing or wrong.
    """
    text = text_config(config)
    family = _family(text, name)
    hidden = whole_number(text, "hidden_size", name)
    vocabulary = whole_number(text, "vocab_size", name)
    depth = whole_number(text, "num_hidden_layers", name)
    tied = stated(text, "tie_word_embeddings", bool, None, name)
    if tied is None:
        tied = stated(config, "tie_word_embeddings", bool, family.tied, name)
    found = [_layer(text, family, number, depth, name) for number in range(depth)]
    layers = Counter(found)
    # The last layer's kind comes last: it is what MTP modules are made of.
    layers[found[-1]] = layers.pop(found[-1])
    return Shape(
        name,
        hidden,
        vocabulary,
        tuple(Layers(count, *layer) for layer, count in layers.items()),
        output_rows=vocabulary,
        own_output=not tied,
    )


def head_sizes(config: Mapping[str, Any], name: str) -> set[int]:
    """Elements of a key and of a value of one head, all of them; errors as ``read_shape``."""
    text = text_config(config)
    if not _family(text, name).latent:
        return {_head_size(text, name)}
    key = whole_number(text, "qk_nope_head_dim", name) + whole_number(
        text, "qk_rope_head_dim", name
    )
    return {key, whole_number(text, "v_head_dim", name)}


def _family(text: Mapping[str, Any], name: str) -> Family:
    kind = said(text, "model_type", str, name)
    if kind is None:
        raise PrerequisiteError(
            f"{name}: config.json has no model_type",
            "name the folder of a model, or the config.json of one",
        )
    if kind not in FAMILIES:
        raise PrerequisiteError(
            f"{name}: the matrices of model type {kind!r} are not known here",
            f"known types: {', '.join(FAMILIES)}",
        )
    return FAMILIES[kind]


def _layer(text: Mapping[str, Any], family: Family, number: int, depth: int, name: str) -> Layer:
    window = _window(text, family, number, depth, name)
    attended = _latent(text, name) if family.latent else _grouped(text, window, name)
    matrices, attention = attended
    hidden = whole_number(text, "hidden_size", name)
    if not _routed(text, family, number, name):
        return (
            matrices + 3 * hidden * whole_number(text, "intermediate_size", name),
            attention,
            None,
        )
    width = "moe_intermediate_size" if family.own_width else "intermediate_size"
    experts = _experts(text, 3 * hidden * whole_number(text, width, name), name)
    router = hidden * experts.total
    return matrices + router + _shared(text, hidden, name), attention, experts


def _grouped(text: Mapping[str, Any], window: int | None, name: str) -> tuple[int, Attention]:
    hidden = whole_number(text, "hidden_size", name)
    heads = whole_number(text, "num_attention_heads", name)
    kv_heads = said(text, "num_key_value_heads", int, name) or heads
    size = _head_size(text, name)
    return hidden * size * 2 * (heads + kv_heads), grouped(heads, kv_heads, size, window)


def _head_size(text: Mapping[str, Any], name: str) -> int:
    hidden = whole_number(text, "hidden_size", name)
    heads = whole_number(text, "num_attention_heads", name)
    size = said(text, "head_dim", int, name)
    if size is None and hidden % heads:
        raise wrong("num_attention_heads", heads, name, f"a divisor of hidden_size = {hidden}")
    return size or hidden // heads


def _latent(text: Mapping[str, Any], name: str) -> tuple[int, Attention]:
    hidden = whole_number(text, "hidden_size", name)
    heads = whole_number(text, "num_attention_heads", name)
    rank = whole_number(text, "kv_lora_rank", name)
    rotary = whole_number(text, "qk_rope_head_dim", name)
    plain = whole_number(text, "qk_nope_head_dim", name)
    value = whole_number(text, "v_head_dim", name)
    asked = said(text, "q_lora_rank", int, name)
    queries = heads * (plain + rotary)
    query = hidden * queries if asked is None else asked * (hidden + queries)
    keys = hidden * (rank + rotary) + rank * heads * (plain + value)
    return query + keys + heads * value * hidden, latent(heads, rank, rotary)


def _window(
    text: Mapping[str, Any], family: Family, number: int, depth: int, name: str
) -> int | None:
    """Tokens that a query of this layer sees; None for all."""
    size = said(text, "sliding_window", int, name) or None
    if (types := said(text, "layer_types", list, name)) is not None:
        if len(types) != depth:
            raise wrong("layer_types", types, name, f"one entry for each of {depth} layers")
        if types[number] not in ("full_attention", "sliding_attention"):
            raise PrerequisiteError(
                f"{name}: layer {number} is of type {types[number]!r}; only full and sliding "
                "attention are known here"
            )
        return size if types[number] == "sliding_attention" else None
    if family.optional_window:
        used = stated(text, "use_sliding_window", bool, False, name)
        first = said(text, "max_window_layers", int, name) or 0
        return size if used and number >= first else None
    period = said(text, "sliding_window_pattern", int, name) or family.period
    slides = family.period and (period == 1 or (number + 1) % period)
    return size if slides else None


def _routed(text: Mapping[str, Any], family: Family, number: int, name: str) -> bool:
    """Whether a layer has routed experts."""
    if family.routing == "behind":
        first = said(text, "first_k_dense_replace", int, name)
        if first is None:
            raise PrerequisiteError(
                f"{name}: config.json has no first_k_dense_replace",
                "copy the checkpoint's own config.json into the folder",
            )
        return number >= first
    if family.routing == "steps":
        step = said(text, "decoder_sparse_step", int, name) or 1
        dense = said(text, "mlp_only_layers", list, name) or []
        return number not in dense and (number + 1) % step == 0
    return family.routing == "all"


def _experts(text: Mapping[str, Any], parameters: int, name: str) -> Experts:
    keys = ("num_experts", "num_local_experts", "n_routed_experts")
    total = whole_number(text, next((key for key in keys if key in text), keys[0]), name)
    chosen = whole_number(text, "num_experts_per_tok", name)
    if chosen > total:
        raise wrong("num_experts_per_tok", chosen, name, f"at most {total}, the number of experts")
    return Experts(total, chosen, parameters)


def _shared(text: Mapping[str, Any], hidden: int, name: str) -> int:
    """Parameters of experts that every token meets; Qwen's have a gate of one row."""
    if width := said(text, "shared_expert_intermediate_size", int, name):
        return 3 * hidden * width + hidden
    count = said(text, "n_shared_experts", int, name)
    return 3 * hidden * whole_number(text, "moe_intermediate_size", name) * count if count else 0
