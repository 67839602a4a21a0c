"""The target's rows behind the next recorded tokens of a batch, and places inside them.

Shapes: B requests, M packed rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.decoding.rows import TargetRows


class Window:
    """One teacher-forced forward.

    Args:
        rows: row ``rows.index[b, i]`` is the target's for token i of request b.
        taps: tapped hidden states, packed as the rows: those of the token before.
        tokens: the recorded tokens of every request that the rows are for.
    """

    def __init__(
        self, rows: TargetRows, taps: Mapping[Tap, Tensor], tokens: Sequence[Sequence[int]]
    ) -> None:
        self.taps = taps
        self.greedy = rows.all_greedy
        self._rows = rows
        self._index = rows.index.tolist()
        self._chances = self._looked_up(tokens)

    def _looked_up(self, tokens: Sequence[Sequence[int]]) -> list[list[float]]:
        if self.greedy:
            first = self._rows.argmax().tolist()
            return [
                [float(token == best[i]) for i, token in enumerate(line)]
                for line, best in zip(tokens, first, strict=True)
            ]
        flat = self.target_of(
            [self._index[b][i] for b, line in enumerate(tokens) for i in range(len(line))],
            [token for line in tokens for token in line],
        )
        values = iter(flat)
        return [list(islice(values, len(line))) for line in tokens]

    @property
    def processed(self) -> Tensor:
        """Target probabilities [M, V] under the requests' settings."""
        return self._rows.processed()

    def target_of(self, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Target probabilities of tokens, each in its packed row."""
        where = torch.tensor([rows, tokens], device=self._rows.raw.device)
        values: list[float] = self.processed[where[0], where[1]].tolist()
        return values

    def row(self, request: int, place: int) -> int:
        """The packed row."""
        return int(self._index[request][place])

    def chance(self, request: int, place: int) -> float:
        """Target probability of the recorded token; at temperature 0 whether it is the choice."""
        return self._chances[request][place]


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests of a window stand.

    Attributes:
        window: rows and features.
        offset: places since the window began.
        members: of each request, its number in the window.
        ahead: of each, the recorded tokens that follow, at least one.
    """

    window: Window
    offset: int
    members: Sequence[int]
    ahead: Sequence[Sequence[int]]

    def row(self, request: int, depth: int) -> int:
        """Packed target row that judges a draft of this depth; 1 is the first."""
        return self.window.row(self.members[request], self.offset + depth - 1)

    def chance(self, request: int, depth: int) -> float:
        """Target probability of the recorded token at this depth."""
        return self.window.chance(self.members[request], self.offset + depth - 1)

    def verified(self, nodes: int, device: torch.device) -> Tensor:
        """int64 [B, nodes + 1]: rows of the taps as ``Drafter.observe`` wants them, root alone."""
        roots = [self.row(request, 1) for request in range(len(self.members))]
        return torch.tensor(roots, device=device)[:, None].expand(-1, nodes + 1)
