"""Weights from 8-bit floats and their scales."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.errors import PrerequisiteError

BLOCK = (128, 128)
"""Rows and columns that share a scale in DeepSeek-V3's checkpoints."""


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
    values, factors = weight.float(), scale.float()
    rows, columns = values.shape
    blocks = (-(-rows // block[0]), -(-columns // block[1]))
    if factors.numel() == 1:
        return values * factors.reshape(())
    if tuple(factors.shape) in ((rows,), (rows, 1)):
        return values * factors.reshape(rows, 1)
    if tuple(factors.shape) != blocks:
        raise PrerequisiteError(
            f"{name} of shape [{rows}, {columns}] has scales of shape {list(factors.shape)}, "
            f"expected {list(blocks)} for blocks of {block[0]} x {block[1]}",
            "fetch or copy the checkpoint again",
        )
    wide = factors.repeat_interleave(block[0], 0)[:rows]
    return values * wide.repeat_interleave(block[1], 1)[:, :columns]
