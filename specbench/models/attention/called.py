"""The attention that transformers' layers call, under a name that their configurations give."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

NAME = "specbench"

Observer = Callable[[int, dict[str, Any]], None]
"""Called per attention call with the layer and the keyword arguments that are not understood."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    plan: Any = None,
    observer: Observer | None = None,
    **extra: Any,
) -> tuple[Tensor, None]:
    """Attend as the forward's plan says; see ``SdpaPlan.run`` for shapes."""
    if observer is not None:
        observer(module.layer_idx, extra)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return plan.run(module.layer_idx, query, key, value, scale, sliding_window), None


def attention_name(*, compiled: bool = False) -> str:
    """The name of ``attend``, once transformers knows it.

    Args:
        compiled: layers that call it are compiled, and compilers go around it. It stays so in this
            process: what a compiled layer calls must not change, or attention is traced with it.
    """
    # Whatever loads a model imports this; nothing else should wait seconds for it.
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

    if compiled:
        AttentionInterface.register(NAME, _untraced())
    elif NAME not in ALL_ATTENTION_FUNCTIONS.valid_keys():
        AttentionInterface.register(NAME, attend)
    return NAME


@cache
def _untraced() -> Callable[..., Any]:
    return torch.compiler.disable(attend)
