"""Drafters whose drafts are steered: right up to a depth, or close to the target's law.

What is steered are the logits that the drafter chooses from, so its trees, laws, KV and refill are
those of a run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specbench.decoding.protocols import Drafter
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.metrics.identities import violations


class Plant:
    """``decoding.sequence.Steering``: right tokens at given ranks, then a wrong one.

    Args:
        tokens: the tokens that come next; those after ``depth`` are kept out of the draft.
        depth: how many of them are planted.
        ranks: the rank at which each is planted, 0 = the best candidate.
        by_depth: rows depend on the depth alone (parallel heads), so the path is not looked at.
    """

    def __init__(
        self, tokens: Sequence[int], depth: int, ranks: Sequence[int], by_depth: bool = False
    ) -> None:
        self._tokens = list(tokens)
        self._depth = depth
        self._ranks = ranks
        self._by_depth = by_depth

    def row(self, path: Sequence[int], logits: Tensor) -> Tensor:
        """The row with the planted token at its rank, or without the right token behind them."""
        place = len(path)
        on_path = self._by_depth or list(path) == self._tokens[:place]
        if not on_path or place >= len(self._tokens):
            return logits
        logits = logits.clone()
        logits[self._tokens[place]] = -torch.inf
        if place >= self._depth:
            return logits
        rank = self._ranks[place]
        best = logits.topk(rank + 1).values
        above = best[rank - 1] if rank else best[0] + 2.0
        logits[self._tokens[place]] = (above + best[rank]) / 2
        return logits

    def token(self, path: Sequence[int]) -> None:
        """Nothing is forced."""


class LikeTarget:
    """``decoding.sequence.Steering``: rows near the target's, so that drafts are often accepted.

    Args:
        target: tokens -> the target's logits [n, V] behind each.
        row: the request.
        share: weight of the target's logits; the rest is the drafter's own.
    """

    def __init__(
        self, target: Callable[[list[int]], Tensor], row: DecodedSequence, share: float
    ) -> None:
        self._target = target
        self._row = row
        self._share = share

    def row(self, path: Sequence[int], logits: Tensor) -> Tensor:
        """The two rows of logits, mixed; tokens that the draft does not have stay out."""
        wanted = self._target([*self._row.tokens.tolist(), *path])[-1]
        mixed = self._share * wanted + (1 - self._share) * logits.clamp(min=-1e4)
        return mixed.masked_fill(logits == -torch.inf, -torch.inf)

    def token(self, path: Sequence[int]) -> None:
        """Nothing is forced."""


class Steered:
    """A drafter that is steered in every step.

    Args:
        inner: the drafter.
        steering: (request, budget) -> what steers its next draft.
    """

    def __init__(self, inner: Drafter, steering: Callable[[DecodedSequence, int], object]) -> None:
        self.inner = inner
        self._steering = steering

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def propose(self, rows, budget):
        """The inner drafter's draft, steered."""
        for row, room in zip(rows, budget, strict=True):
            row.steering = self._steering(row, room)
        try:
            return self.inner.propose(rows, budget)
        finally:
            for row in rows:
                row.steering = None


def planting(
    continuation: Callable[[DecodedSequence, int], Sequence[int]],
    breadth: int = 1,
    seed: int = 0,
    by_depth: bool = False,
) -> Callable[[DecodedSequence, int], Plant]:
    """Steering for ``Steered``: depth uniform in 0 .. budget, ranks uniform below ``breadth``."""
    chance = random.Random(seed)

    def steering(row: DecodedSequence, budget: int) -> Plant:
        room = max(budget, 0)
        ranks = [chance.randrange(breadth) for _ in range(room)]
        return Plant(continuation(row, room), chance.randint(0, room), ranks, by_depth)

    return steering


def require_every_length(rows: Sequence[DecodedSequence], k: int) -> None:
    """Valid records in which drafts of full depth were accepted to every length, 20 times each."""
    lengths: Counter[int] = Counter()
    for row in rows:
        assert violations(row.trace, k_max=k) == []
        steps = row.trace.steps
        lengths.update(a for a, d in zip(steps.accepted, steps.depths, strict=True) if d == k)
    assert min(lengths[n] for n in range(k + 1)) >= 20, lengths
