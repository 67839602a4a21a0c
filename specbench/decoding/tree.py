"""Drafted tokens as trees; a chain is a tree with one path.

Shapes: B requests of the batch, N nodes (padded to the largest request). Node order is
topological: a parent precedes its children. The root, the last committed token, is not a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

ROOT = -1
PAD = -1


@dataclass(frozen=True)
class TokenTree:
    """Token ids and parents of drafted nodes.

    Depths and ancestors are found once, on the host, and kept: rule, attention and random numbers
    ask for the same ones.

    Attributes:
        ids: int64 [B, N], ``PAD`` behind the last node of a request.
        parents: int64 [B, N], index of the parent node, ``ROOT`` for children of the root.
        counts: nodes per request, on the host.
        chain: every node's parent is the node before it.
    """

    ids: Tensor
    parents: Tensor
    counts: tuple[int, ...]
    chain: bool

    @property
    def width(self) -> int:
        """N, the padded number of nodes."""
        return int(self.ids.shape[1])

    def valid(self) -> Tensor:
        """bool [B, N]: real nodes. A negative id is a hole: never accepted, never a draft."""
        return self.ids >= 0

    @cached_property
    def deepest(self) -> tuple[int, ...]:
        """Nodes on the longest path of every request."""
        if self.chain:
            return self.counts
        table = self.depths().cpu().numpy()
        return tuple(int(table[b, :count].max(initial=0)) for b, count in enumerate(self.counts))

    @cached_property
    def lines(self) -> tuple[bool, ...]:
        """Whether the nodes of a request are one path, whatever its neighbours have."""
        if self.chain:
            return (True,) * len(self.counts)
        return tuple(
            line[:count] == list(range(ROOT, count - 1))
            for line, count in zip(self.parents.tolist(), self.counts, strict=True)
        )

    def nodes_within(self, request: int, depth: int) -> int:
        """How many nodes of a request are at most this deep."""
        count = self.counts[request]
        if self.lines[request]:
            return min(depth, count)
        return int((self.depths()[request, :count] <= depth).sum())

    def depths(self) -> Tensor:
        """int64 [B, N]: 1 for children of the root."""
        return self._places[0]

    def ancestors(self) -> Tensor:
        """bool [B, N, N]: entry (i, j) says that node i sees node j (itself included)."""
        return self._places[1]

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """Depths and ancestors, level by level: the work grows with the depth, not with N."""
        batch, width = self.ids.shape
        device = self.ids.device
        if self.chain:
            line = torch.arange(1, width + 1, device=device).expand(batch, width)
            below = torch.ones(width, width, dtype=torch.bool, device=device).tril()
            return line, below.expand(batch, width, width)
        parents = self.parents.cpu().numpy()
        depth = np.ones((batch, width), dtype=np.int64)
        visible = np.broadcast_to(np.eye(width, dtype=bool), (batch, width, width)).copy()
        owner, node = np.indices((batch, width)).reshape(2, -1)
        above = parents.reshape(-1)
        while len(owner := owner[above >= 0]):
            node, above = node[above >= 0], above[above >= 0]
            depth[owner, node] += 1
            visible[owner, node, above] = True
            above = parents[owner, above]
        return torch.from_numpy(depth).to(device), torch.from_numpy(visible).to(device)


def chain(ids: Tensor, counts: tuple[int, ...]) -> TokenTree:
    """A chain per request from ids int64 [B, N]; entries from ``counts`` on must be ``PAD``."""
    parents = torch.arange(-1, ids.shape[1] - 1, device=ids.device).expand_as(ids)
    return TokenTree(ids, parents, counts, True)


def empty(batch: int, device: torch.device) -> TokenTree:
    """No draft for any of ``batch`` requests."""
    return chain(torch.empty(batch, 0, dtype=torch.int64, device=device), (0,) * batch)


class TrialKind(IntEnum):
    """How the children tried at one parent were chosen; it decides the lossless test."""

    ONE_HOT = 0
    IID = 1
    WITHOUT_REPLACEMENT = 2
    DETERMINISTIC_SET = 3
    INDEPENDENT = 4
    """Independent draws, each from a law of its own: several drafters at one node."""


@dataclass(frozen=True, slots=True)
class Trials:
    """The order in which children are tried. Several trials may share a node.

    Attributes:
        parent: int64 [B, R] parent node of the trial, ``ROOT`` for the root.
        node: int64 [B, R] the node tried, ``PAD`` where there is no trial.
        law: int64 [B, R] row of the draft law the node's token was drawn from.
        kind: how the draws relate.
    """

    parent: Tensor
    node: Tensor
    law: Tensor
    kind: TrialKind


def chain_trials(tree: TokenTree, kind: TrialKind) -> Trials:
    """One trial per node of a chain, law row = node."""
    node = torch.arange(tree.width, device=tree.ids.device).expand_as(tree.ids)
    return Trials(tree.parents, torch.where(tree.valid(), node, PAD), node, kind)
