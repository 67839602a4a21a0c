"""Linear layers with weights in 4 bits, a scale and an offset per group of columns (asymmetric).

A group holds values 0 to 15 times its scale, from its smallest weight on. The error of a weight is
at most half of its group's scale, which is a fifteenth of the group's range.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specbench.models.quant.int8 import scale_type

LARGEST = 15
KERNEL_GROUPS = (32, 64, 128)
"""Groups that torch's own kernel takes."""
KERNEL_CHANNELS = 16
"""Output channels that it takes at a time."""


def int4_groups(weight: Tensor, group: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest values uint8 [O, I] of 0 to 15, scales and smallest weights [O, I / group]."""
    exact = weight.detach().float().unflatten(1, (-1, group))
    kind = scale_type(weight.dtype)
    low = exact.amin(-1).to(kind)
    scale = (exact.amax(-1) - exact.amin(-1)) / LARGEST
    scale = torch.where(scale > 0, scale, 1.0).to(kind)
    values = ((exact - low.float()[..., None]) / scale.float()[..., None]).round()
    return values.clamp(0, LARGEST).to(torch.uint8).flatten(1), scale, low


class Int4Linear(nn.Module):
    """Drop-in for ``nn.Linear``, inference only; weights are widened in every forward.

    Two values share a byte: those of the left half of the columns are the low bits.

    Args:
        linear: the layer that is replaced; its weight may be freed.
        group: columns per scale; divides the columns.
    """

    values: Tensor
    scale: Tensor
    low: Tensor

    def __init__(self, linear: nn.Linear, group: int) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.group = group
        values, scale, low = int4_groups(linear.weight, group)
        half = self.in_features // 2
        self.register_buffer("values", values[:, :half] | (values[:, half:] << 4))
        self.register_buffer("scale", scale)
        self.register_buffer("low", low)
        self.bias = linear.bias

    def weight(self, dtype: torch.dtype) -> Tensor:
        """The weights [O, I] that are computed with."""
        half = self.in_features // 2
        kind = torch.float32 if dtype == torch.float16 else dtype
        wide = torch.empty(
            self.out_features, self.in_features, dtype=kind, device=self.values.device
        )
        wide[:, :half] = self.values & 15
        wide[:, half:] = self.values >> 4
        grouped = wide.unflatten(1, (-1, self.group))
        grouped.mul_(self.scale[..., None]).add_(self.low[..., None])
        return wide.to(dtype)

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features]."""
        return F.linear(rows, self.weight(rows.dtype), self.bias)


class Int4KernelLinear(nn.Module):
    """The same in the layout of torch's CPU kernel, which is vectorised for bfloat16 alone.

    Args:
        linear: the layer that is replaced, in bfloat16 on the CPU;
            its channels are a multiple of ``KERNEL_CHANNELS``.
        group: columns per scale, of ``KERNEL_GROUPS``.
    """

    values: Tensor
    scales: Tensor

    def __init__(self, linear: nn.Linear, group: int) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self.group = group
        values, scale, low = int4_groups(linear.weight, group)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.int(), 1)
        self.register_buffer("values", packed)
        # The kernel counts from the middle: (value - 8) * scale + zero.
        zero = (low.float() + 8 * scale.float()).to(scale.dtype)
        self.register_buffer("scales", torch.stack([scale, zero], -1).transpose(0, 1).contiguous())
        self.bias = linear.bias

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in_features] to [..., out_features]."""
        flat = rows.reshape(-1, self.in_features).contiguous()
        found = torch.ops.aten._weight_int4pack_mm_for_cpu(
            flat, self.values, self.group, self.scales
        )
        found = found.reshape(*rows.shape[:-1], self.out_features)
        return found if self.bias is None else found + self.bias
