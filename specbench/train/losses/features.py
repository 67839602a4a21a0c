"""The loss that draws predicted hidden states to the target's (EAGLE-1)."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def smooth_l1(predicted: Tensor, true: Tensor) -> Tensor:
    """Smooth L1 with beta 1, mean over the hidden size (Li et al. 2401.15077, section 4.2).

    Args:
        predicted, true: [M, H].

    Returns:
        [M].
    """
    return functional.smooth_l1_loss(predicted, true, reduction="none").mean(1)
