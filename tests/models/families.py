"""Tiny random models of four families, with logits that are far apart."""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY = 64
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
}
WINDOW = 5
"""Gemma-3's sliding window, shorter than every prompt of the tests."""


def build(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    """A model of a family; the same seed gives the same weights."""
    import transformers as hf

    sizes = SIZES | changes
    torch.manual_seed(seed)
    if family == "llama":
        model = hf.LlamaForCausalLM(hf.LlamaConfig(**sizes))
    elif family == "qwen2":
        model = hf.Qwen2ForCausalLM(hf.Qwen2Config(**sizes))
    elif family == "qwen3":
        model = hf.Qwen3ForCausalLM(hf.Qwen3Config(head_dim=16, **sizes))
    elif family == "gemma2":
        model = hf.Gemma2ForCausalLM(hf.Gemma2Config(head_dim=8, **sizes))
    else:
        model = hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                head_dim=8,
                sliding_window=WINDOW,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                query_pre_attn_scalar=8,
                **sizes,
            )
        )
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return model.to(dtype).eval().requires_grad_(False)


def reference(model: Any) -> Any:
    """``ids -> logits [n, V]`` by transformers alone, with its eager attention and no cache."""
    model.set_attn_implementation("eager")

    def logits(ids: list[int]) -> torch.Tensor:
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]

    return logits
