"""Norms, rotary positions, attention and MLPs in plain torch, without caches or batches.

Every function takes whole sequences [T, ...] and says who sees whom as a bool mask [T, T].
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

Tensors = Mapping[str, Tensor]


def rms(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight."""
    return rows / torch.sqrt((rows * rows).mean(-1, keepdim=True) + eps) * weight


def linear(tensors: Tensors, name: str, rows: Tensor) -> Tensor:
    """Rows times the named weight, with the bias of that name where there is one."""
    out = rows @ tensors[f"{name}.weight"].T
    bias = tensors.get(f"{name}.bias")
    return out if bias is None else out + bias


def rotate(
    rows: Tensor, positions: Tensor, theta: float, size: int, neighbours: bool = False
) -> Tensor:
    """Rotate the first ``size`` entries of [T, heads, D] by position.

    Pair i turns by position / theta^(2 i / size). It is made of entries i and i + size / 2, or of
    ``neighbours`` 2 i and 2 i + 1.
    """
    rates = theta ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    angles = positions.double()[:, None, None] * rates
    cos, sin = torch.cos(angles).to(rows.dtype), torch.sin(angles).to(rows.dtype)
    if neighbours:
        x, y = rows[..., 0:size:2], rows[..., 1:size:2]
        turned = torch.stack([x * cos - y * sin, x * sin + y * cos], -1).flatten(-2)
    else:
        x, y = rows[..., : size // 2], rows[..., size // 2 : size]
        turned = torch.cat([x * cos - y * sin, x * sin + y * cos], -1)
    return torch.cat([turned, rows[..., size:]], -1)


def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, scale: float) -> Tensor:
    """softmax(q k^T * scale) v over visible rows, heads side by side; [T, heads * Dv].

    Query head h reads key-value head h // (heads / kv heads).
    """
    shared = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(shared, 1), value.repeat_interleave(shared, 1)
    scores = torch.einsum("thd,shd->hts", query, key) * scale
    weights = torch.softmax(scores.masked_fill(~visible, -math.inf), -1)
    return torch.einsum("hts,shd->thd", weights, value).flatten(1)


def gated_mlp(tensors: Tensors, name: str, rows: Tensor, activation: str = "silu") -> Tensor:
    """down(act(gate x) * up x), where silu(x) = x sigmoid(x)."""
    gate = linear(tensors, f"{name}.gate_proj", rows)
    bent = gate.clamp(min=0) if activation == "relu" else gate * torch.sigmoid(gate)
    return linear(tensors, f"{name}.down_proj", bent * linear(tensors, f"{name}.up_proj", rows))


def grouped_attention(
    tensors: Tensors,
    name: str,
    rows: Tensor,
    positions: Tensor,
    visible: Tensor,
    heads: int,
    kv_heads: int,
    size: int,
    theta: float,
    turned: int | None = None,
    norm_eps: float | None = None,
) -> Tensor:
    """Attention with shared key-value heads.

    Args:
        turned: entries of a head that are rotated; None = all.
        norm_eps: of q_norm and k_norm per head, where a model has them.
    """
    query = linear(tensors, f"{name}.q_proj", rows).view(-1, heads, size)
    key = linear(tensors, f"{name}.k_proj", rows).view(-1, kv_heads, size)
    value = linear(tensors, f"{name}.v_proj", rows).view(-1, kv_heads, size)
    if norm_eps is not None:
        query = rms(query, tensors[f"{name}.q_norm.weight"], norm_eps)
        key = rms(key, tensors[f"{name}.k_norm.weight"], norm_eps)
    turned = size if turned is None else turned
    query = rotate(query, positions, theta, turned)
    key = rotate(key, positions, theta, turned)
    seen = attend(query, key, value, visible, 1 / math.sqrt(size))
    return linear(tensors, f"{name}.o_proj", seen)
