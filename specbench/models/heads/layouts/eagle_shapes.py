"""Tensors that an EAGLE head has, by its configuration; what ``build`` lays out, without torch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Shape = tuple[int, ...]


def eagle_shapes(f: Mapping[str, Any], taps: int, names: Collection[str]) -> dict[str, Shape]:
    """Canonical name -> shape of every tensor.

    Args:
        f: fields of ``EagleConfig``.
        taps: hidden states that it reads.
        names: what the checkpoint has; only ends and the bias of the output projection of
            attention follow it.
    """
    hidden, width = f["hidden"], f["target_hidden"]
    joined = 2 * hidden if f["version"] == 1 else taps * width
    shapes: dict[str, Shape] = {"fc.weight": (hidden, joined)}
    if f["fc_bias"]:
        shapes["fc.bias"] = (hidden,)
    if f.get("norm_before_fc"):
        shapes["input_norm.weight"] = (joined,)
    if f.get("fc_norm"):
        shapes |= {f"fc_norm.{i}.weight": (width,) for i in range(taps)}
    if f["final_norm"]:
        shapes["norm.weight"] = (hidden,)
    for index in range(f["layers"]):
        shapes |= _layer(f, index, names)
    ends = {"embed_tokens.weight": f["vocabulary"], "lm_head.weight": f["draft_vocabulary"]}
    return shapes | {name: (rows, hidden) for name, rows in ends.items() if name in names}


def _layer(f: Mapping[str, Any], index: int, names: Collection[str]) -> dict[str, Shape]:
    """A layer; EAGLE-3's first reads two states, EAGLE-1's first has no norm before it."""
    hidden, inner, p = f["hidden"], f["intermediate"], f"layers.{index}."
    joins = f["version"] == 3 and index == 0
    queries, keys = f["heads"] * f["head_size"], f["kv_heads"] * f["head_size"]
    shapes: dict[str, Shape] = {
        f"{p}self_attn.o_proj.weight": (hidden, queries),
        f"{p}mlp.gate_proj.weight": (inner, hidden),
        f"{p}mlp.up_proj.weight": (inner, hidden),
        f"{p}mlp.down_proj.weight": (hidden, inner),
        f"{p}post_attention_layernorm.weight": (hidden,),
    }
    for part, rows in (("q", queries), ("k", keys), ("v", keys)):
        shapes[f"{p}self_attn.{part}_proj.weight"] = (rows, 2 * hidden if joins else hidden)
        if f["attention_bias"]:
            shapes[f"{p}self_attn.{part}_proj.bias"] = (rows,)
    if f["attention_bias"] and f"{p}self_attn.o_proj.bias" in names:
        shapes[f"{p}self_attn.o_proj.bias"] = (hidden,)
    if index or f["version"] == 3 or f.get("input_norm"):
        shapes[f"{p}input_layernorm.weight"] = (hidden,)
    if joins:
        shapes[f"{p}hidden_norm.weight"] = (hidden,)
    return shapes
