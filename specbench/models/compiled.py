"""Regional compilation: each decoder layer by itself, with attention left as it is.

Norms, rotary embeddings, activations and residuals become a few kernels per layer. Layers of one
model share what is compiled, so that it is done once and not per layer. Attention reads Python
objects that change from step to step (``models.attention.called``); the compiler goes around it.
"""

from __future__ import annotations

from typing import Any

from specbench.models.attention.called import attention_name


def compile_layers(model: Any) -> None:
    """Compile the decoder layers of a causal LM in place; done at their first forwards.

    Numbers of tokens vary from forward to forward, so kernels are made for any.
    """
    attention_name(compiled=True)
    for layer in model.base_model.layers:
        layer.compile(dynamic=True)
