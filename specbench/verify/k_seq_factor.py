"""The factor of K-SEQ and what it leaves of the target (Sun et al. 2310.15141, SpecTr)."""

from __future__ import annotations

import torch
from torch import Tensor

_HALVINGS = 24
"""Steps of the bisection, each a pass over the rows: the factor is found to (k - 1) / 2^24."""


def best_factor(target: Tensor, draft: Tensor, count: Tensor) -> Tensor:
    """Smallest rho in [1, k] with 1 - (1 - b)^k <= rho b, for b = sum min(draft, target / rho).

    The left side falls and the right side rises with rho, so bisection finds it. Its upper end is
    returned: any rho that is large enough is exact, so a step more would only accept a bit more.

    Args:
        target, draft: [n, V] probabilities.
        count: float64 [n], k.
    """
    target, draft = target.double(), draft.double()

    def exact(rho: Tensor) -> Tensor:
        kept = torch.minimum(draft * rho[:, None], target).sum(1)
        return 1 - (1 - kept / rho).clamp(min=0.0) ** count <= kept

    low, high = torch.ones_like(count), count
    high = torch.where(exact(low), low, high)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = exact(middle)
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high


def leftover(target: Tensor, draft: Tensor, count: Tensor, rho: Tensor) -> Tensor:
    """Weights [n, V] of the token after all k candidates failed: target - min(draft, t / rho) a/b.

    Rounding alone leaves nothing; then the target stays.

    Args:
        target, draft: [n, V] probabilities.
        count, rho: float64 [n], k and the factor.
    """
    kept = torch.minimum(draft.double(), target.double() / rho[:, None])
    one = kept.sum(1)
    # Where no candidate can pass, kept is 0 and any scale will do.
    scale = (1 - (1 - one).clamp(min=0.0) ** count) / one.clamp(min=torch.finfo(one.dtype).tiny)
    left = (target.double() - kept * scale[:, None]).clamp(min=0.0).to(target.dtype)
    return torch.where(left.sum(1, keepdim=True) > 0, left, target)
