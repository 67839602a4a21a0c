"""EAGLE heads as their papers and published code define them: whole sequences, no KV.

Written from the definitions alone; nothing of ``specbench.models.heads`` runs here but the
description of the head.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.models.heads.configs import EagleConfig
from tests.models.heads.reference_parts import Tensors, gated_mlp, grouped_attention, linear, rms


class ReferenceEagle:
    """Common to both versions.

    Args:
        config: what the head is.
        tensors: by canonical name.
        embedding, projection: the target's, for what the head lacks.
    """

    def __init__(
        self, config: EagleConfig, tensors: Tensors, embedding: Tensor, projection: Tensor
    ) -> None:
        self.config = config
        self.tensors = tensors
        self.embedding = tensors.get("embed_tokens.weight", embedding)
        self.projection = tensors.get("lm_head.weight", projection)
        self.ids = tensors.get("target_ids")

    def norm(self, name: str, rows: Tensor) -> Tensor:
        return rms(rows, self.tensors[f"{name}.weight"], self.config.norm_eps)

    def attention(self, layer: str, rows: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        c = self.config
        # "linear" scaling divides positions by its factor.
        factor = float((c.rope_scaling or {}).get("factor", 1.0))
        return grouped_attention(
            self.tensors,
            f"{layer}.self_attn",
            rows,
            positions / factor,
            visible,
            c.heads,
            c.kv_heads,
            c.head_size,
            c.rope_theta,
        )

    def plain_layer(
        self, layer: str, rows: Tensor, positions: Tensor, visible: Tensor, normed: bool = True
    ) -> Tensor:
        """A Llama layer."""
        entering = self.norm(f"{layer}.input_layernorm", rows) if normed else rows
        rows = rows + self.attention(layer, entering, positions, visible)
        behind = self.norm(f"{layer}.post_attention_layernorm", rows)
        return rows + gated_mlp(self.tensors, f"{layer}.mlp", behind, self.config.activation)

    def logits(self, states: Tensor) -> Tensor:
        """In the head's vocabulary."""
        return (self.norm("norm", states) if self.config.final_norm else states) @ self.projection.T

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        return self.norm("norm", states) if self.config.recycle == "post_norm" else states


class ReferenceEagle1(ReferenceEagle):
    """fc([emb(x_{t+1}); f_t]), then layers of which the first has no input norm."""

    def begin(self, features: Tensor) -> Tensor:
        return features

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        rows = linear(self.tensors, "fc", torch.cat([self.embedding[ids], hidden], 1))
        for i in range(self.config.layers):
            normed = i > 0 or self.config.input_norm
            rows = self.plain_layer(f"layers.{i}", rows, positions, visible, normed)
        return rows


class ReferenceEagle3(ReferenceEagle):
    """fc over low, mid and high features; attention over [norm(emb(x)); norm(h)]."""

    def begin(self, features: Tensor) -> Tensor:
        c = self.config
        if c.norm_before_fc:
            features = self.norm("input_norm", features)
        if c.fc_norm:
            width = c.target_hidden
            parts = [features[:, i * width : (i + 1) * width] for i in range(len(c.taps))]
            features = torch.cat([self.norm(f"fc_norm.{i}", p) for i, p in enumerate(parts)], 1)
        return linear(self.tensors, "fc", features)

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        embedded = self.norm("layers.0.input_layernorm", self.embedding[ids])
        normed = self.norm("layers.0.hidden_norm", hidden)
        joined = torch.cat([embedded, normed], 1)
        rows = self.attention("layers.0", joined, positions, visible)
        rows = rows + (normed if self.config.norm_before_residual else hidden)
        behind = self.norm("layers.0.post_attention_layernorm", rows)
        rows = rows + gated_mlp(self.tensors, "layers.0.mlp", behind, self.config.activation)
        for i in range(1, self.config.layers):
            rows = self.plain_layer(f"layers.{i}", rows, positions, visible)
        return rows
