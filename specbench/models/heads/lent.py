"""Rows of the target's output projection, for heads that draft some tokens and have none.

Shapes: V rows of the target's output projection, Vd of a draft vocabulary, H hidden size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.linear import PackedLinear

_PLAIN = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def lent_rows(output: Any, ids: Tensor, dtype: torch.dtype, name: str) -> nn.Linear:
    """The target's output projection for some tokens: a copy that is not trained.

    Its weight is a buffer, so no optimiser and no ``requires_grad_`` reaches it; gradients flow
    through it to what it projects.

    Args:
        output: the target's output projection, plain or packed.
        ids: int64 [Vd] rows of it, in this order.
        dtype: of the copy.
        name: of the head, for messages.

    Returns:
        Linear [Vd, H] on the device of ``output``, with a bias where that has one.

    Raises:
        PrerequisiteError: the projection is quantised, so that its rows are not to be had.
    """
    weight, bias = _stored(output)
    if weight is None:
        raise PrerequisiteError(
            f"{name} has no output projection of its own, and the target's is quantised "
            f"({type(output).__name__}): the rows of its {len(ids)} tokens cannot be taken from it",
            "leave the target's quant_head out, or use a head that was exported in full",
        )
    made = nn.Linear(weight.shape[1], len(ids), bias=bias is not None, device="meta")
    for part, stored in (("weight", weight), ("bias", bias)):
        if stored is not None:
            delattr(made, part)
            made.register_buffer(part, stored[ids.to(stored.device)].to(dtype))
    return made


def _stored(output: Any) -> tuple[Tensor | None, Tensor | None]:
    """Weight [V, H] and bias [V] of a projection; no weight where it is quantised."""
    if isinstance(output, PackedLinear):
        # The same numbers in oneDNN's order.
        return output._packed.to_dense(), output._bias
    weight, bias = getattr(output, "weight", None), getattr(output, "bias", None)
    # Packages that quantise put a class of their own in the place of the parameter.
    if type(weight) is not nn.Parameter or weight.dtype not in _PLAIN:
        return None, None
    return weight.detach(), None if bias is None else bias.detach()


def check_map(checkpoint: HeadCheckpoint, rows: int, name: str) -> None:
    """Raise PrerequisiteError where rows of the output projection name no token of the target.

    Args:
        checkpoint: the head.
        rows: V.
        name: of the head, for messages.
    """
    ids = checkpoint.tensors.get("target_ids")
    if ids is not None and not 0 <= int(ids.min()) <= int(ids.max()) < rows:
        raise PrerequisiteError(
            f"{name}: its token map has ids {int(ids.min())} to {int(ids.max())}, "
            f"but the target has {rows} vocabulary rows",
            "use a head that was made for this target",
        )
