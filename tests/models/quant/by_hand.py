"""Quantisation written down apart from the product, in numpy and group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn


def int8_weight(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a weight becomes, and the scale of each row."""
    scale = np.array([max(abs(row)) / 127 if any(row) else 1.0 for row in weight])
    return np.rint(weight / scale[:, None]) * scale[:, None], scale


def int4_weight(weight: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """What a weight becomes, and the scale that each of its entries has."""
    found, scales = np.empty_like(weight), np.empty_like(weight)
    for row in range(weight.shape[0]):
        for start in range(0, weight.shape[1], group):
            part = weight[row, start : start + group]
            scale = (part.max() - part.min()) / 15 or 1.0
            found[row, start : start + group] = (
                part.min() + np.rint((part - part.min()) / scale) * scale
            )
            scales[row, start : start + group] = scale
    return found, scales


def widened(model: Any, scheme: str, group: int = 16, head: bool = False) -> int:
    """Put the weights that a quantised model computes with into a model's own linear layers.

    Returns the bytes that hand arithmetic gives for the replaced layers, scales in float32.
    """
    size = 0
    for name, layer in model.named_modules():
        if not isinstance(layer, nn.Linear) or (name.endswith("lm_head") and not head):
            continue
        exact = layer.weight.detach().double().numpy()
        rows, columns = exact.shape
        if scheme == "int8":
            found, _ = int8_weight(exact)
            size += rows * columns + 4 * rows
        else:
            found, _ = int4_weight(exact, group)
            size += rows * columns // 2 + 2 * 4 * rows * columns // group
        layer.weight.data = torch.tensor(found, dtype=layer.weight.dtype)
    return size
