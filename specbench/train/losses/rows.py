"""The target's probabilities of a draft vocabulary's tokens, and what is computed against them.

Shapes: M rows, Vd tokens that the draft can propose.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TargetProbs:
    """What the target says at M positions, as far as a draft can say it too.

    Attributes:
        probs: [M, Vd] probabilities under the whole vocabulary: rows sum to ``mass``.
        mass: [M] what the draft vocabulary has of the target's probability, at most 1.
        token: int64 [M] the token that really came next, as a row of the draft vocabulary; -1
            where the draft cannot say it.
        best: int64 [M] the same for the target's first choice.
    """

    probs: Tensor
    mass: Tensor
    token: Tensor
    best: Tensor

    def __len__(self) -> int:
        return len(self.mass)

    def entropy(self) -> Tensor:
        """[M] - sum p log p over the draft vocabulary: what ``forward_kl`` is at least."""
        return -torch.xlogy(self.probs, self.probs).sum(1)


@torch.no_grad()
def target_probs(logits: Tensor, lse: Tensor | None, token: Tensor, best: Tensor) -> TargetProbs:
    """From the target's logits to probabilities.

    Args:
        logits: [M, Vd] of the draft vocabulary's tokens.
        lse: [M] logarithm of the sum of exponentials of the target's whole rows; None where
            ``logits`` are the whole rows.
        token, best: see ``TargetProbs``.
    """
    if lse is None:
        probs = logits.softmax(1)
        return TargetProbs(probs, probs.new_ones(len(probs)), token, best)
    probs = logits.sub(lse[:, None]).exp_()
    mass = probs.sum(1)
    # States that were stored in fewer bits than they were computed in can give a little more than
    # 1. Rows have to sum to their mass, or a loss could fall by adding a constant to all logits.
    probs /= mass.clamp(min=1.0)[:, None]
    return TargetProbs(probs, mass.clamp(max=1.0), token, best)
