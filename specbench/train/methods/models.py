"""Whole models in training: copies that share weights, and their forward over packed conversations.

Shapes: T tokens of whole conversations, one after the other, H hidden size, M wanted rows, V rows
of a model's output projection.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from specbench.models.attention.called import attention_name
from specbench.train.methods.unrolled import Unrolled


def shared_copy(model: Any) -> Any:
    """The modules of a transformers model once more, over the same parameters.

    Its attention is that of packed batches; the model itself stays as it is.
    """
    made = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    made.set_attn_implementation(attention_name())
    return made


def own_weights(model: nn.Module) -> None:
    """Give a model trainable float32 copies of its parameters; what was tied stays tied."""
    copies: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in copies:
                own = parameter.detach().to(torch.float32, copy=True)
                copies[id(parameter)] = nn.Parameter(own)
            setattr(module, name, copies[id(parameter)])


def states_of(model: Any, ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """Hidden states [T, H] behind the last norm.

    Args:
        model: its attention is that of packed batches.
        ids: int64 [T].
        lengths: tokens per conversation.

    Raises:
        UsageError: a conversation that is longer than a layer's sliding window.
    """
    return model.base_model(**_packed(ids, lengths))[0][0]


def logits_of(model: Any, ids: Tensor, lengths: Sequence[int], rows: Tensor) -> Tensor:
    """Logits [M, V] behind packed places int64 [M]; the rest as ``states_of``."""
    return model(**_packed(ids, lengths), logits_to_keep=rows).logits[0]


def _packed(ids: Tensor, lengths: Sequence[int]) -> dict[str, Any]:
    places = torch.cat([torch.arange(length) for length in lengths]).to(ids.device)
    return {
        "input_ids": ids[None],
        "position_ids": places[None],
        "use_cache": False,
        "plan": Unrolled(lengths),
    }
