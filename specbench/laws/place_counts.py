"""Counts of a sampler of rounds that drafts by itself, from rows that depend on the place alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.sampling import draw
from specbench.laws.rounds import PAD, Rounds


@dataclass(frozen=True, slots=True)
class PlaceCounts:
    """A sampler of rounds that drafts from the rows and counts.

    ``shared``: the number behind the drafts also draws the first of them.
    """

    sampler: Callable[[Rounds], Tensor]
    shared: bool = False

    def __call__(self, target: Tensor, draft: Tensor, samples: int, seed: int) -> Tensor:
        given = place_rounds(target, draft, samples, seed, self.shared)
        tokens = self.sampler(given)
        found = [row[row != PAD].bincount(minlength=target.shape[1]) for row in tokens.T]
        return torch.stack(found)


def place_rounds(
    target: Tensor, draft: Tensor, count: int, seed: int, shared: bool = False
) -> Rounds:
    """Rounds whose rows depend on the place alone."""
    k = len(draft)
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(count, 2 * k + 1, generator=generator, dtype=torch.float64)
    own, accept, last = numbers[:, :k], numbers[:, k:-1], numbers[:, -1]
    if shared:
        own[:, 0] = last
    source = torch.arange(k).expand(count, k)
    position = torch.arange(k + 1).expand(count, k + 1)
    ids = torch.stack([draw(draft[step].expand(count, -1), own[:, step]) for step in range(k)], 1)
    return Rounds(target, position, draft, source, ids, accept, last, True)
