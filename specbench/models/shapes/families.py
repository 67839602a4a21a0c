"""Kinds of models whose matrices are known here, by ``model_type``.

Each was held against the tensors that transformers makes (``tests/models/shapes``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Routing = Literal["", "all", "steps", "behind"]


@dataclass(frozen=True, slots=True)
class Family:
    """What a configuration of this kind does not say.

    Attributes:
        tied: whether the output projection is the embedding where the file is silent.
        period: every so many layers one sees everything, the others a window; 1 = all have the
            window, 0 = none has. Files that list their layers' types are taken at their word.
        optional_window: the window counts only where ``use_sliding_window`` is true, from layer
            ``max_window_layers`` on.
        routing: which layers have routed experts: none, ``all``, every so many (``steps``), or all
            ``behind`` the first few.
        own_width: experts have a width of their own, ``moe_intermediate_size``.
        latent: attention of DeepSeek's kind (MLA).
    """

    tied: bool = False
    period: int = 0
    optional_window: bool = False
    routing: Routing = ""
    own_width: bool = False
    latent: bool = False


_PLAIN = Family()
_QWEN = Family(optional_window=True)
_QWEN_MOE = Family(optional_window=True, routing="steps", own_width=True)
_DEEPSEEK = Family(routing="behind", own_width=True, latent=True)

FAMILIES = {
    "llama": _PLAIN,
    "mistral": Family(period=1),
    "ministral": Family(period=1),
    "qwen2": _QWEN,
    "qwen3": _QWEN,
    "mimo": _QWEN,
    "gemma": Family(tied=True),
    "gemma2": Family(tied=True, period=2),
    "gemma3_text": Family(tied=True, period=6),
    "phi3": Family(period=1),
    "olmo": _PLAIN,
    "olmo2": _PLAIN,
    "olmo3": Family(period=4),
    "granite": _PLAIN,
    "smollm3": Family(tied=True),
    "glm": _PLAIN,
    "glm4": _PLAIN,
    "seed_oss": _PLAIN,
    "mixtral": Family(period=1, routing="all"),
    "olmoe": Family(routing="all"),
    "gpt_oss": Family(period=2, routing="all"),
    "qwen2_moe": _QWEN_MOE,
    "qwen3_moe": _QWEN_MOE,
    "glm4_moe": Family(routing="behind", own_width=True),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK,
    "kimi_k2": _DEEPSEEK,
}
"""``model_type`` -> family."""
