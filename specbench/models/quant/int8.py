"""Linear layers with weights in 8 bits, one scale per output channel (symmetric).

The error of a weight is at most half of its channel's scale, which is the largest absolute weight
of the channel divided by 127.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGEST = 127

KERNEL_ROWS = 16
"""Rows up to which torch's own kernel is faster than a product with widened weights."""


def scale_type(dtype: torch.dtype) -> torch.dtype:
    """Data type of scales: bfloat16 keeps float32's range and may stay, float16 would underflow."""
    return dtype if dtype == torch.bfloat16 else torch.float32


def int8_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest values int8 [O, I] and scales [O] of a weight [O, I]."""
    exact = weight.detach().float()
    scale = exact.abs().amax(1) / LARGEST
    scale = torch.where(scale > 0, scale, 1.0).to(scale_type(weight.dtype))
    values = (exact / scale.float()[:, None]).round().clamp(-LARGEST, LARGEST)
    return values.to(torch.int8), scale


class Int8Linear(nn.Module):
    """Drop-in for ``nn.Linear``, inference only.

    Args:
        linear: the layer that is replaced; its weight may be freed.
    """

    values: Tensor
    scale: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        values, scale = int8_rows(linear.weight)
        self.register_buffer("values", values)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features]."""
        if rows.dtype == torch.float16:
            # Products with integers up to 127 leave the range of float16 before they are scaled.
            weight = (self.values * self.scale[:, None]).to(rows.dtype)
            return F.linear(rows, weight, self.bias)
        if self._has_kernel(rows):
            flat = rows.reshape(-1, self.in_features).contiguous()
            found = torch.ops.aten._weight_int8pack_mm(flat, self.values, self.scale)
            found = found.reshape(*rows.shape[:-1], self.out_features)
        else:
            found = F.linear(rows, self.values.to(rows.dtype)) * self.scale
        return found if self.bias is None else found + self.bias

    def _has_kernel(self, rows: Tensor) -> bool:
        """The kernel is vectorised for bfloat16 alone; in float32 it is ten times slower."""
        few = rows.numel() <= KERNEL_ROWS * self.in_features
        return few and rows.dtype == torch.bfloat16 and rows.device.type == "cpu"
