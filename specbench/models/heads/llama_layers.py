"""Llama layers of EAGLE heads, out of transformers' parts.

Attention goes through the function of ``models.attention.called``, so that a head runs packed
batches as the target does.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

from specbench.models.attention.called import attention_name
from specbench.models.heads.configs import EagleConfig
from specbench.models.selfcheck import refuse_configuration


def llama_config(config: EagleConfig, name: str) -> LlamaConfig:
    """The head's layers as a Llama configuration.

    Args:
        config: the head's.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: a RoPE that depends on the batch.
        KeyError, TypeError, ValueError: values that transformers does not know.
    """
    rope: dict[str, Any] = dict(config.rope_scaling or {})
    # Older files say "type".
    rope.setdefault("rope_type", rope.pop("type", "default"))
    llama = LlamaConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.heads * config.head_size,
        intermediate_size=config.intermediate,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        head_dim=config.head_size,
        hidden_act=config.activation,
        rms_norm_eps=config.norm_eps,
        max_position_embeddings=config.max_positions,
        rope_parameters=rope | {"rope_theta": config.rope_theta},
        attention_bias=config.attention_bias,
    )
    # A configuration is refused unless its heads divide H; these layers run all the same.
    llama.hidden_size = config.hidden
    refuse_configuration(llama, name)
    llama._attn_implementation = attention_name()
    return llama


def rotary_embedding(llama: LlamaConfig) -> LlamaRotaryEmbedding:
    """Rotary angles; computed at once, also while weights are laid out without storage."""
    with torch.device("cpu"):
        return LlamaRotaryEmbedding(llama)


def decoder_layer(llama: LlamaConfig, index: int, names: Collection[str]) -> LlamaDecoderLayer:
    """A plain Llama layer; ``names`` are the checkpoint's tensors."""
    layer = LlamaDecoderLayer(llama, index)
    _match_output_bias(layer.self_attn, f"layers.{index}", names)
    return layer


class JoinedLayer(nn.Module):
    """EAGLE-3's first layer: it attends over [embedding; hidden state] (ALGORITHMS 3.3).

    Args:
        llama: sizes; hidden size H.
        norm_before_residual: whether the residual is the normed hidden state.
        names: the checkpoint's tensors.
    """

    def __init__(
        self, llama: LlamaConfig, norm_before_residual: bool, names: Collection[str]
    ) -> None:
        super().__init__()
        size = llama.hidden_size
        self.norm_before_residual = norm_before_residual
        self.input_layernorm = LlamaRMSNorm(size, eps=llama.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(size, eps=llama.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(size, eps=llama.rms_norm_eps)
        self.self_attn = LlamaAttention(llama, 0)
        for part in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(self.self_attn, part)
            wide = nn.Linear(2 * size, narrow.out_features, bias=narrow.bias is not None)
            setattr(self.self_attn, part, wide)
        _match_output_bias(self.self_attn, "layers.0", names)
        self.mlp = LlamaMLP(llama)

    def forward(
        self, embedded: Tensor, hidden: Tensor, rotary: tuple[Tensor, Tensor], plan: object
    ) -> Tensor:
        """Stream [1, T, H] from embeddings and hidden states, both [1, T, H]."""
        normed = self.hidden_norm(hidden)
        joined = torch.cat([self.input_layernorm(embedded), normed], -1)
        attended, _ = self.self_attn(joined, position_embeddings=rotary, plan=plan)
        stream = attended + (normed if self.norm_before_residual else hidden)
        return stream + self.mlp(self.post_attention_layernorm(stream))


def _match_output_bias(attention: LlamaAttention, prefix: str, names: Collection[str]) -> None:
    """Drop the output projection's bias where the file has none: Qwen-like layers bias q, k, v."""
    output = attention.o_proj
    if output.bias is not None and f"{prefix}.self_attn.o_proj.bias" not in names:
        attention.o_proj = nn.Linear(output.in_features, output.out_features, bias=False)
