"""Drawn trees as the tensors that a rule judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.tree import ROOT, TokenTree, TrialKind, Trials
from specbench.laws.drawn_trees import DrawnTree
from specbench.laws.rounds import PAD


@dataclass(frozen=True, slots=True)
class Packed:
    """Drawn trees as tensors: C trees, N nodes, R trials, padded to the largest.

    ``trial_place`` is the place of a trial among those of its parent.
    """

    start: Tensor
    mass: Tensor
    ids: Tensor
    parents: Tensor
    counts: tuple[int, ...]
    trial_parent: Tensor
    trial_node: Tensor
    trial_place: Tensor

    def tree(self, places: Tensor) -> TokenTree:
        """The trees at the given places."""
        counts = tuple(self.counts[place] for place in places.tolist())
        return TokenTree(self.ids[places], self.parents[places], counts, False)

    def trials(self, places: Tensor, kind: TrialKind) -> Trials:
        """Their trials; law row 0 is the root's, law row 1 + n that of node n.

        Where every child has a drafter of its own, the rows of the drafters follow each other.
        """
        parent = self.trial_parent[places]
        law = parent + 1
        if kind is TrialKind.INDEPENDENT:
            law = law + self.trial_place[places] * (self.ids.shape[1] + 1)
        return Trials(parent, self.trial_node[places], law, kind)


def packed(trees: Sequence[DrawnTree]) -> Packed:
    """Trees padded to one size."""
    nodes = max(len(tree.tokens) for tree in trees)
    trials = max(len(tree.trials) for tree in trees)

    def table(rows: Sequence[Sequence[int]], width: int, fill: int) -> Tensor:
        return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])

    return Packed(
        torch.tensor([tree.start for tree in trees]),
        torch.tensor([tree.mass for tree in trees], dtype=torch.float64),
        table([tree.tokens for tree in trees], nodes, PAD),
        table([tree.parents for tree in trees], nodes, ROOT),
        tuple(len(tree.tokens) for tree in trees),
        table([[parent for parent, _ in tree.trials] for tree in trees], trials, ROOT),
        table([[node for _, node in tree.trials] for tree in trees], trials, PAD),
        table([_places(tree) for tree in trees], trials, 0),
    )


def _places(tree: DrawnTree) -> list[int]:
    parents = [parent for parent, _ in tree.trials]
    return [parents[:i].count(parent) for i, parent in enumerate(parents)]
