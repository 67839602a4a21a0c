"""Linear layers with oneDNN weights packed once, which makes verifying several rows cheap on a CPU.

torch's own ``linear`` lets the library repack or take a slow path for small row counts; with
weights packed for a handful of rows the time for 8 rows stays close to that for 1.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

ROWS_HINT = 8
"""Rows the packed layout is chosen for: between plain decode (1) and a batch of verifies."""


class PackedLinear(nn.Module):
    """Drop-in for ``nn.Linear`` on CPU, inference only.

    Raises RuntimeError (from torch) where oneDNN cannot pack the weight.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS_HINT)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features]."""
        return torch.ops.mkldnn._linear_pointwise(rows, self._packed, self._bias, "none", [], "")


def can_pack() -> bool:
    """Whether this torch build has the packed operators."""
    return torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_reorder_linear_weight"
    )


def pack_linears(model: nn.Module) -> int:
    """Replace every plain ``nn.Linear`` of a CPU model; returns how many were replaced.

    Where oneDNN refuses (by data type: float64, float16 on many CPUs), it refuses the first layer
    already: the model stays as it is and 0 is returned.
    """
    if not can_pack():
        return 0
    replaced = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is not nn.Linear:
                continue
            try:
                setattr(module, name, PackedLinear(child))
            except RuntimeError:
                return replaced
            replaced += 1
    return replaced
