"""Regional compilation: each decoder layer by itself, with attention left as it is.

Norms, rotary embeddings, activations and residuals become a few kernels per layer. Layers of one
model share what is compiled, so that it is done once and not per layer. Attention reads Python
objects that change from step to step (``models.packed.attend``); the compiler goes around it.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.modeling_utils import AttentionInterface

from specbench.models.packed import ATTENTION, attend


def compile_layers(model: Any) -> None:
    """Compile the decoder layers of a causal LM in place; done at their first forwards.

    Numbers of tokens vary from forward to forward, so kernels are made for any.
    """
    AttentionInterface.register(ATTENTION, torch.compiler.disable(attend))
    for layer in model.base_model.layers:
        layer.compile(dynamic=True)
