"""Rounds of speculation on a table: everything a sampler is given, for many rounds at once.

Shapes: n rounds, K draft length, V vocabulary, M packed rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.decoding.sampling import draw
from specbench.laws.tables import LawTable, starts

PAD = -1


@dataclass(frozen=True, slots=True)
class Rounds:
    """Inputs of n independent rounds.

    Attributes:
        target: float32 [M, V] packed target rows.
        position: int64 [n, K + 1] row of the target at each position.
        draft: float32 [M', V] packed draft rows, as the sampler is told of them.
        source: int64 [n, K] draft row of each position.
        ids: int64 [n, K] drafted tokens; ids outside the vocabulary are holes.
        accept, last: float64 [n, K] and [n] uniform numbers in [0, 1).
        sampled: whether drafts were drawn from their rows, or taken without chance.
    """

    target: Tensor
    position: Tensor
    draft: Tensor
    source: Tensor
    ids: Tensor
    accept: Tensor
    last: Tensor
    sampled: bool

    @property
    def k(self) -> int:
        """K."""
        return int(self.ids.shape[1])

    def on(self, device: torch.device) -> Rounds:
        """The same rounds with their tensors on a device."""
        return replace(
            self,
            target=self.target.to(device),
            position=self.position.to(device),
            draft=self.draft.to(device),
            source=self.source.to(device),
            ids=self.ids.to(device),
            accept=self.accept.to(device),
            last=self.last.to(device),
        )

    def part(self, places: Tensor) -> Rounds:
        """The rounds at the given places."""
        return replace(
            self,
            position=self.position[places],
            source=self.source[places],
            ids=self.ids[places],
            accept=self.accept[places],
            last=self.last[places],
        )


Sampler = Callable[[Rounds], Tensor]
"""The emitted tokens int64 [n, K + 1], padded with -1 behind the last."""


def rounds(table: LawTable, starts: Tensor, ids: Tensor, accept: Tensor, last: Tensor) -> Rounds:
    """Rounds behind ``starts`` int64 [n] with drafts int64 [n, K]."""
    before = torch.cat([starts[:, None], ids], 1)
    inside = torch.where((before >= 0) & (before < table.size), before, 0)
    return Rounds(
        table.target, inside, table.draft, inside[:, :-1], ids, accept, last, table.sampled
    )


@dataclass(frozen=True, slots=True)
class Paths:
    """Every chain of drafts behind every start: start int64 [C], ids [C, K], mass float64 [C]."""

    start: Tensor
    ids: Tensor
    mass: Tensor


def paths(table: LawTable, k: int | None = None) -> Paths:
    """All chains of ``k`` (default K) drafts that the table's draft can take, and their chances.

    Behind token 0 alone where it stands for all, see ``tables.starts``.
    """
    start = torch.tensor(starts(table.target, table.draft))
    ids = torch.empty(len(start), 0, dtype=torch.int64)
    mass = torch.ones(len(start), dtype=torch.float64)
    for _ in range(table.k if k is None else k):
        before = ids[:, -1] if ids.shape[1] else start
        chance = table.draft.double()[before]
        parent, token = chance.nonzero(as_tuple=True)
        start, mass = start[parent], mass[parent] * chance[parent, token]
        ids = torch.cat([ids[parent], token[:, None]], 1)
    return Paths(start, ids, mass)


def drawn_ids(table: LawTable, starts: Tensor, uniforms: Tensor) -> Tensor:
    """Drafts int64 [n, K] drawn from the table's rows by uniform numbers float64 [n, K]."""
    found: list[Tensor] = []
    for step in range(uniforms.shape[1]):
        before = found[-1] if found else starts
        found.append(draw(table.draft[before], uniforms[:, step]))
    return torch.stack(found, 1)


def counted(tokens: Tensor) -> Tensor:
    """Tokens that each round emitted, int64 [n]."""
    return (tokens != PAD).sum(1)
