"""Streams of rounds that follow each other on a table, with a sampler that draws its own numbers.

Shapes: B streams, K draft length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

import torch
from torch import Tensor

from specbench.laws.codes import refuse_broken
from specbench.laws.rounds import Rounds, counted, drawn_ids, rounds
from specbench.laws.tables import LawTable

STREAMS = 4096

Drawn = Callable[[Rounds, torch.Generator], Tensor]
"""Rounds and the generator to draw from -> the emitted tokens int64 [B, K + 1]."""


class Noise(Enum):
    """Where the numbers of a round come from."""

    FRESH = 0
    SHARED = 1
    """The draft's generator and the sampler's begin every round in the same state."""
    REPEATED = 2
    """The sampler's generator begins every round in the same state."""


def streams(
    sampler: Drawn, table: LawTable, samples: int, seed: int, device: torch.device, noise: Noise
) -> Iterator[Tensor]:
    """Counts int64 [K + 1, V, V, V] of (place in the round, token two before, token before, token).

    One item per call of the sampler, until ``samples`` rounds are done.
    """
    count = min(STREAMS, samples)
    drafts = torch.Generator().manual_seed(seed)
    own = torch.Generator(device).manual_seed(seed + 1)
    before = torch.arange(count) % table.size
    older = before.clone()
    for turn in range(max(1, samples // count)):
        if noise is not Noise.FRESH:
            own.manual_seed(seed + 1 + (turn if noise is Noise.SHARED else 0))
        if noise is Noise.SHARED:
            drafts.manual_seed(seed + 1 + turn)
        numbers = torch.rand(count, table.k, generator=drafts, dtype=torch.float64)
        ids = drawn_ids(table, before, numbers)
        nothing = torch.zeros(count, table.k + 1, dtype=torch.float64)
        tokens = sampler(rounds(table, before, ids, nothing[:, 1:], nothing[:, 0]), own)
        refuse_broken(tokens, table.size)
        yield _counts(table, older, before, tokens)
        length = counted(tokens)
        history = torch.cat([older[:, None], before[:, None], tokens], 1)
        older, before = (history.gather(1, (length + i)[:, None]).squeeze(1) for i in (0, 1))


def _counts(table: LawTable, older: Tensor, before: Tensor, tokens: Tensor) -> Tensor:
    size = table.size
    history = torch.cat([older[:, None], before[:, None], tokens], 1)
    length = counted(tokens)
    total = torch.zeros(table.k + 1, size**3, dtype=torch.int64)
    for place in range(table.k + 1):
        seen = history[length > place, place : place + 3]
        total[place] = (seen @ torch.tensor([size**2, size, 1])).bincount(minlength=size**3)
    return total.view(table.k + 1, size, size, size)
