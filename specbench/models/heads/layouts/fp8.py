"""Scales of 8-bit floats: which shapes go with a weight."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.errors import PrerequisiteError

BLOCK = (128, 128)
"""Rows and columns that share a scale in DeepSeek-V3's checkpoints."""
BLOCK_SCALE, ROW_SCALE = "weight_scale_inv", "weight_scale"
"""DeepSeek's scales per block, and compressed-tensors' per row; both multiply."""
BESIDE_WEIGHTS = (f".{BLOCK_SCALE}", f".{ROW_SCALE}", ".input_scale", ".rotary_emb.inv_freq")
"""How tensors end that are no weights of a layer."""


def check_scale(
    weight: Sequence[int], scale: Sequence[int], block: Sequence[int], name: str
) -> None:
    """Check the shape of scales: one value, one per row, or one per block, cut off at the edges.

    Args:
        weight: shape [M, N].
        scale: shape.
        block: rows and columns that share a scale.
        name: of the weight, for messages.

    Raises:
        PrerequisiteError: another shape, or a weight that is no matrix.
    """
    if len(weight) == 2:
        rows, columns = weight
        blocks = (-(-rows // block[0]), -(-columns // block[1]))
        found = tuple(scale)
        if all(n == 1 for n in found) or found in ((rows,), (rows, 1), blocks):
            return
        wanted = f"expected {list(blocks)} for blocks of {block[0]} x {block[1]}"
    else:
        wanted = "which only matrices have"
    raise PrerequisiteError(
        f"{name} of shape {list(weight)} has scales of shape {list(scale)}, {wanted}",
        "fetch or copy the checkpoint again",
    )
