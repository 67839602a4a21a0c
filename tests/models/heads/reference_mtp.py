"""Multi-token prediction layers in plain torch, with each family's decoder layer written out."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specbench.models.heads.configs import MtpConfig
from tests.models.heads.reference_parts import (
    Tensors,
    attend,
    gated_mlp,
    grouped_attention,
    linear,
    rms,
    rotate,
)


class ReferenceMtp:
    """One module used at every step.

    Args:
        config: what the head is; ``config.target.config`` has the target's sizes.
        tensors: by canonical name.
        embedding, projection: the target's, for what the head lacks.
    """

    def __init__(
        self, config: MtpConfig, tensors: Tensors, embedding: Tensor, projection: Tensor
    ) -> None:
        self.config = config
        self.sizes = config.target.config
        self.tensors = tensors
        self.embedding = tensors.get("embed_tokens.weight", embedding)
        self.projection = tensors.get("head.weight", projection)
        self.ids = tensors.get("target_ids")

    def norm(self, name: str, rows: Tensor) -> Tensor:
        return rms(rows, self.tensors[f"{name}.weight"], self.sizes.rms_norm_eps)

    def begin(self, features: Tensor) -> Tensor:
        return features

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        embedded = self.embedding[ids]
        if self.config.zero_first:
            embedded = torch.where(positions[:, None] == 0, torch.zeros(()), embedded)
        token, state = self.norm("enorm", embedded), self.norm("hnorm", hidden)
        joined = [state, token] if self.config.order == "hidden_first" else [token, state]
        rows = linear(self.tensors, "eh_proj", torch.cat(joined, 1))
        entering = self.norm("layer.input_layernorm", rows)
        rows = rows + self.attention(entering, positions, visible)
        behind = self.norm("layer.post_attention_layernorm", rows)
        if self.config.family == "mimo":
            return rows + gated_mlp(self.tensors, "layer.mlp", behind)
        return rows + self.experts(behind)

    def logits(self, states: Tensor) -> Tensor:
        return self.norm("norm", states) @ self.projection.T

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        return {"pre_norm": states, "post_norm": self.norm("norm", states), "target": hidden}[
            self.config.recycle
        ]

    def attention(self, rows: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        s = self.sizes
        if self.config.family == "deepseek":
            return self.latent_attention(rows, positions, visible)
        glm = self.config.family == "glm4_moe"
        size = s.head_dim if glm else s.hidden_size // s.num_attention_heads
        return grouped_attention(
            self.tensors,
            "layer.self_attn",
            rows,
            positions,
            visible,
            s.num_attention_heads,
            s.num_key_value_heads,
            size,
            s.rope_parameters["rope_theta"],
            turned=size // 2 if glm else None,
            norm_eps=s.rms_norm_eps if glm and s.use_qk_norm else None,
        )

    def latent_attention(self, rows: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        """Multi-head latent attention with its latents expanded; rotary pairs are neighbours."""
        s, name = self.sizes, "layer.self_attn"
        heads, plain, turned = s.num_attention_heads, s.qk_nope_head_dim, s.qk_rope_head_dim
        theta = s.rope_parameters["rope_theta"]
        if s.q_lora_rank is None:
            query = linear(self.tensors, f"{name}.q_proj", rows)
        else:
            low = linear(self.tensors, f"{name}.q_a_proj", rows)
            low = rms(low, self.tensors[f"{name}.q_a_layernorm.weight"], 1e-6)
            query = linear(self.tensors, f"{name}.q_b_proj", low)
        query = query.view(-1, heads, plain + turned)
        latent = linear(self.tensors, f"{name}.kv_a_proj_with_mqa", rows)
        low, shared = latent[:, : s.kv_lora_rank], latent[:, s.kv_lora_rank :]
        low = rms(low, self.tensors[f"{name}.kv_a_layernorm.weight"], 1e-6)
        both = linear(self.tensors, f"{name}.kv_b_proj", low)
        both = both.view(-1, heads, plain + s.v_head_dim)
        shared = rotate(shared[:, None], positions, theta, turned, neighbours=True)
        spun = rotate(query[..., plain:], positions, theta, turned, neighbours=True)
        query = torch.cat([query[..., :plain], spun], -1)
        key = torch.cat([both[..., :plain], shared.expand(-1, heads, -1)], -1)
        scale = 1 / math.sqrt(plain + turned)
        return linear(
            self.tensors, f"{name}.o_proj", attend(query, key, both[..., plain:], visible, scale)
        )

    def experts(self, rows: Tensor) -> Tensor:
        """Sigmoid router: a correction bias chooses groups and experts, but does not weigh."""
        s, name = self.sizes, "layer.mlp"
        scores = torch.sigmoid(rows @ self.tensors[f"{name}.gate.weight"].T)
        worth = scores.detach() + self.tensors[f"{name}.gate.e_score_correction_bias"]
        groups = worth.view(len(rows), s.n_group, -1).sort(-1).values[..., -2:].sum(-1)
        kept = groups >= groups.sort(-1).values[:, [-s.topk_group]]
        kept = kept.repeat_interleave(s.n_routed_experts // s.n_group, 1)
        worth = worth.masked_fill(~kept, -math.inf)
        best = worth >= worth.sort(-1).values[:, [-s.num_experts_per_tok]]
        weights = scores * best
        if s.norm_topk_prob:
            weights = weights / weights.sum(1, keepdim=True)
        out = gated_mlp(self.tensors, f"{name}.shared_experts", rows)
        for e in range(s.n_routed_experts):
            expert = gated_mlp(self.tensors, f"{name}.experts.{e}", rows)
            out = out + weights[:, [e]] * s.routed_scaling_factor * expert
        return out
