"""Drafted tokens as trees; a chain is a tree with one path.

Shapes: B requests of the batch, N nodes (padded to the largest request). Node order is
topological: a parent precedes its children. The root, the last committed token, is not a node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

ROOT = -1
PAD = -1


@dataclass(frozen=True, slots=True)
class TokenTree:
    """Token ids and parents of drafted nodes.

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

    def depths(self) -> Tensor:
        """int64 [B, N]: 1 for children of the root."""
        if self.chain:
            return torch.arange(1, self.width + 1, device=self.ids.device).expand_as(self.ids)
        depth = torch.zeros_like(self.ids)
        for node in range(self.width):
            parent = self.parents[:, node : node + 1]
            above = depth.gather(1, parent.clamp(min=0)).squeeze(1)
            depth[:, node] = torch.where(parent.squeeze(1) < 0, 1, above + 1)
        return depth

    def ancestors(self) -> Tensor:
        """bool [B, N, N]: entry (i, j) says that node i sees node j (itself included)."""
        batch, width = self.ids.shape
        eye = torch.eye(width, dtype=torch.bool, device=self.ids.device)
        if self.chain:
            return torch.ones_like(eye).tril().expand(batch, width, width)
        mask = eye.expand(batch, width, width).clone()
        for node in range(width):
            parent = self.parents[:, node]
            above = mask[torch.arange(batch, device=self.ids.device), parent.clamp(min=0)]
            mask[:, node] |= above & (parent >= 0)[:, None]
        return mask


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
