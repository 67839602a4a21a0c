"""Weights from 8-bit floats and their scales."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.models.heads.layouts.fp8 import check_scale


def dequantise(weight: Tensor, scale: Tensor, block: Sequence[int], name: str) -> Tensor:
    """The weight in float32: stored values times their scales.

    Args:
        weight: float8 [M, N].
        scale: one value; [M] or [M, 1] per row; or [ceil(M / b0), ceil(N / b1)] per block, the
            last ones cut off at the edges.
        block: b0, b1.
        name: of the weight, for messages.

    Raises:
        PrerequisiteError: scales of another shape.
    """
    check_scale(weight.shape, scale.shape, block, name)
    values, factors = weight.float(), scale.float()
    rows, columns = values.shape
    if factors.numel() == 1:
        return values * factors.reshape(())
    if tuple(factors.shape) in ((rows,), (rows, 1)):
        return values * factors.reshape(rows, 1)
    wide = factors.repeat_interleave(block[0], 0)[:rows]
    return values * wide.repeat_interleave(block[1], 1)[:, :columns]
