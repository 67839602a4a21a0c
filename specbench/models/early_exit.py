"""A model made of the first layers of another one, sharing all its weights."""

from __future__ import annotations

import copy
from typing import Any

from torch import nn

from specbench.errors import UsageError


def early_exit(model: Any, layers: int) -> Any:
    """First ``layers`` decoder layers, final norm and head of a transformers causal LM.

    The modules are shared, not copied; only the containers are new.

    Raises:
        UsageError: ``layers`` outside 1 .. L - 1, or a model without a list of layers.
    """
    base = model.base_model
    stack = getattr(base, "layers", None)
    if not isinstance(stack, nn.ModuleList):
        raise UsageError(
            f"layer_skip: {type(model).__name__} has no list of decoder layers",
            "use a decoder-only model such as Llama, Qwen or Gemma, or another drafter",
        )
    if not 1 <= layers < len(stack):
        raise UsageError(
            f"layer_skip: layers={layers}, but the target has {len(stack)} layers",
            f"choose 1 to {len(stack) - 1}",
        )
    short_base = _shell(base)
    short_base.layers = stack[:layers]
    short = _shell(model)
    setattr(short, model.base_model_prefix, short_base)
    return short


def _shell(module: Any) -> Any:
    """A module with its own table of children, so that replacing one leaves the original alone."""
    shell = copy.copy(module)
    shell._modules = dict(module._modules)
    return shell
