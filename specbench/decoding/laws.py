"""Draft laws: the distribution each drafted token was really drawn from.

Shapes: B requests, R law rows, N nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class DraftLaws(Protocol):
    """What a rule may ask of the draft."""

    def token_probs(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """float32 [B, N]: draft probability of ``tokens`` under law ``rows`` (both [B, N])."""
        ...

    def subtract_from(
        self, target: Tensor, row: Tensor, token: Tensor, scale: float = 1.0
    ) -> Tensor:
        """relu(target - scale * law) for one law row per request, not normalised.

        Args:
            target: [B, V] target probabilities.
            row: int64 [B] law row.
            token: int64 [B] the token that was drawn from it.
            scale: factor of the law, for rules that are lenient.
        """
        ...

    def rows_at(
        self, owner: Sequence[int], row: Sequence[int], token: Sequence[int], vocabulary: int
    ) -> Tensor:
        """Fresh law rows float32 [n, V]: law ``row[i]`` of request ``owner[i]``.

        ``token[i]`` is the token that was drawn from it.
        """
        ...


class OneHotLaws:
    """Drafts chosen without chance (lookup, argmax): all mass on the drafted token."""

    def token_probs(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """1 for every drafted token."""
        return torch.ones(tokens.shape, dtype=torch.float32, device=tokens.device)

    def subtract_from(
        self, target: Tensor, row: Tensor, token: Tensor, scale: float = 1.0
    ) -> Tensor:
        """The target with ``scale`` taken off the drafted token."""
        at = token.clamp(min=0)[:, None]
        return target.scatter(1, at, (target.gather(1, at) - scale).clamp(min=0.0))

    def rows_at(
        self, owner: Sequence[int], row: Sequence[int], token: Sequence[int], vocabulary: int
    ) -> Tensor:
        """Unit rows."""
        ids = torch.tensor(token)[:, None]
        return torch.zeros(len(token), vocabulary).scatter_(1, ids, 1.0)


class DenseLaws:
    """Drafts sampled from full rows [B, R, V], already processed by the sampling settings."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def token_probs(self, tokens: Tensor, rows: Tensor) -> Tensor:
        """Draft probability of each token; ids out of range give 0."""
        batch = torch.arange(tokens.shape[0], device=tokens.device)[:, None]
        inside = (tokens >= 0) & (tokens < self.rows.shape[2])
        probs = self.rows[batch, rows, torch.where(inside, tokens, 0)]
        return torch.where(inside, probs, 0.0)

    def subtract_from(
        self, target: Tensor, row: Tensor, token: Tensor, scale: float = 1.0
    ) -> Tensor:
        """relu(target - scale * draft), not normalised."""
        batch = torch.arange(row.shape[0], device=row.device)
        return torch.sub(target, self.rows[batch, row], alpha=scale).clamp_(min=0.0)

    def rows_at(
        self, owner: Sequence[int], row: Sequence[int], token: Sequence[int], vocabulary: int
    ) -> Tensor:
        """Copies of the rows."""
        device = self.rows.device
        return self.rows[torch.tensor(owner, device=device), torch.tensor(row, device=device)]
