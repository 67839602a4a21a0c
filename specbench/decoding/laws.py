"""Draft laws: the distribution each drafted token was really drawn from.

Shapes: B requests, R law rows, N nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from specbench.core.trace import LENIENCE

_SMALLEST = 1e-38
"""Keeps a ratio finite where the target probability is 0; such a token cannot be emitted."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A draft law beside the target, at n emitted tokens.

    Attributes:
        first: int64 [n], the draft's first choice.
        emitted: [n], draft probability of the emitted token.
        overlap: [n], sum of min(target, draft).
        lenient: [n], sum of min(target / l, draft) at lenience l = ``LENIENCE``.
        order: [n, V], a number that orders tokens as draft/target does.
    """

    first: Tensor
    emitted: Tensor
    overlap: Tensor
    lenient: Tensor
    order: Tensor


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

    def in_full(self, tokens: Tensor, rows: Tensor, width: int) -> Tensor:
        """float32 [B, N, width]: the law behind every node, zeros behind its V entries.

        Args:
            tokens, rows: int64 [B, N], the tokens that were drawn and law rows.
            width: at least V.
        """
        ...

    def repeat(self, request: int, times: int) -> DraftLaws:
        """One request's laws as a batch of ``times``, without copies."""
        ...

    def whole(
        self, owner: Sequence[int], row: Sequence[int], drafted: Sequence[int], like: Tensor
    ) -> Tensor:
        """Law rows [n, V] in full; arguments as in ``compare``, ``like`` a row of target."""
        ...

    def compare(
        self,
        owner: Sequence[int],
        row: Sequence[int],
        drafted: Sequence[int],
        emitted: Tensor,
        target: Tensor,
    ) -> Comparison:
        """Compare law rows with target rows at n emitted tokens.

        Args:
            owner, row: request and law row of each.
            drafted: the token that was drawn from it.
            emitted: int64 [n] the token that came out.
            target: [n, V] target probabilities.
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

    def in_full(self, tokens: Tensor, rows: Tensor, width: int) -> Tensor:
        """Unit rows."""
        full = torch.zeros(*tokens.shape, width, device=tokens.device)
        return full.scatter_(2, tokens[:, :, None], 1.0)

    def repeat(self, request: int, times: int) -> OneHotLaws:
        """The same."""
        return self

    def whole(
        self, owner: Sequence[int], row: Sequence[int], drafted: Sequence[int], like: Tensor
    ) -> Tensor:
        """Unit rows."""
        rows = like.new_zeros(len(drafted), like.shape[-1])
        return rows.scatter_(1, torch.tensor(drafted, device=like.device)[:, None], 1.0)

    def compare(
        self,
        owner: Sequence[int],
        row: Sequence[int],
        drafted: Sequence[int],
        emitted: Tensor,
        target: Tensor,
    ) -> Comparison:
        """In closed form: no row of the vocabulary is compared with a unit row."""
        first = torch.tensor(drafted, device=target.device)
        overlap = target.gather(1, first[:, None]).squeeze(1)
        order = torch.zeros_like(target).scatter_(1, first[:, None], 1.0)
        lenient = (overlap / LENIENCE).clamp(max=1.0)
        return Comparison(first, (first == emitted).to(target.dtype), overlap, lenient, order)


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

    def in_full(self, tokens: Tensor, rows: Tensor, width: int) -> Tensor:
        """Copies of the rows."""
        batch = torch.arange(rows.shape[0], device=rows.device)[:, None]
        return functional.pad(self.rows[batch, rows], (0, width - self.rows.shape[2]))

    def repeat(self, request: int, times: int) -> DenseLaws:
        """Views of one request's rows."""
        return DenseLaws(self.rows[request : request + 1].expand(times, -1, -1))

    def whole(
        self, owner: Sequence[int], row: Sequence[int], drafted: Sequence[int], like: Tensor
    ) -> Tensor:
        """Copies of the rows."""
        device = self.rows.device
        return self.rows[torch.tensor(owner, device=device), torch.tensor(row, device=device)]

    def compare(
        self,
        owner: Sequence[int],
        row: Sequence[int],
        drafted: Sequence[int],
        emitted: Tensor,
        target: Tensor,
    ) -> Comparison:
        """From copies of the rows."""
        draft = self.whole(owner, row, drafted, target)
        return Comparison(
            draft.argmax(1),
            draft.gather(1, emitted[:, None]).squeeze(1),
            torch.minimum(target, draft).sum(1),
            torch.minimum(target / LENIENCE, draft).sum(1),
            draft.div_(target.clamp(min=_SMALLEST)),
        )
