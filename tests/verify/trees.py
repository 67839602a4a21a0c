"""Small drafted trees: every draw of them, as the batch that a rule gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, DraftLaws, OneHotLaws
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, Trials

WITHOUT_CHANCE = (TrialKind.ONE_HOT, TrialKind.DETERMINISTIC_SET)


@dataclass(frozen=True)
class Batch:
    """What a rule gets, save for the numbers; ``weight`` is the chance of each row's draw."""

    tree: TokenTree
    trials: Trials
    rows: TargetRows
    laws: DraftLaws
    weight: Tensor

    def take(self, at: Tensor) -> Batch:
        """Rows of the batch, which may repeat."""
        tree, trials = self.tree, self.trials
        part = TokenTree(
            tree.ids[at], tree.parents[at], tuple(tree.counts[i] for i in at.tolist()), tree.chain
        )
        tried = replace(trials, parent=trials.parent[at], node=trials.node[at], law=trials.law[at])
        rows = TargetRows(self.rows.raw, self.rows.index[at], self.rows.sampling)
        laws = DenseLaws(self.laws.rows[at]) if isinstance(self.laws, DenseLaws) else self.laws
        return Batch(part, tried, rows, laws, self.weight[at])


@dataclass(frozen=True)
class Setting:
    """Rows by the token before (target and draft [V, V]), the shape of the tree, and its draws.

    Attributes:
        parents: parent of every trial's node, in order.
        kind: how siblings are drawn; certain ones are the draft's first choices.
        shared: equal siblings share one node, with all of their children.
    """

    target: Tensor
    draft: Tensor
    parents: tuple[int, ...]
    kind: TrialKind
    shared: bool = False

    def draws(self, start: int) -> list[tuple[tuple[int, ...], float]]:
        """Tokens of all trials with their probability; ``PAD`` where nothing was left to draw."""
        found: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        for trial, parent in enumerate(self.parents):
            longer = []
            for tokens, mass in found:
                before = start if parent == ROOT else tokens[parent]
                siblings = [tokens[i] for i in range(trial) if self.parents[i] == parent]
                options = self._next(before, siblings) if before != PAD else [(PAD, 1.0)]
                longer += [((*tokens, token), mass * p) for token, p in options]
            found = longer
        return found

    def _next(self, before: int, siblings: Sequence[int]) -> list[tuple[int, float]]:
        line = self.draft[before].double()
        if self.kind in WITHOUT_CHANCE:
            return [(int(line.argsort(descending=True, stable=True)[len(siblings)]), 1.0)]
        if self.kind is TrialKind.WITHOUT_REPLACEMENT:
            line = line.clone()
            line[[token for token in siblings if token != PAD]] = 0.0
        options = [(x, p) for x, p in enumerate((line / line.sum()).tolist()) if p > 0]
        return options or [(PAD, 1.0)]

    def batch(self, start: int) -> Batch:
        """All draws behind ``start``."""
        draws = self.draws(start)
        return self.of([tokens for tokens, _ in draws], start, [mass for _, mass in draws])

    def of(self, draws: Sequence[Sequence[int]], start: int, weight: Sequence[float] = ()) -> Batch:
        """The batch of given draws; law row 0 is the root's, row 1 + n that behind node n."""
        count, size = len(self.parents), len(self.target)
        ids = torch.full((len(draws), count), PAD)
        parents = torch.full((len(draws), count), ROOT)
        trials = torch.full((3, len(draws), count), PAD)
        counts = []
        for b, tokens in enumerate(draws):
            node_of: list[int] = []
            made: dict[tuple[int, int], int] = {}
            for trial, token in enumerate(tokens):
                above = self.parents[trial]
                parent = ROOT if above == ROOT else node_of[above]
                known = made.get((parent, token)) if self.shared else None
                node = len(set(node_of)) if known is None else known
                made.setdefault((parent, token), node)
                node_of.append(node)
                ids[b, node], parents[b, node] = token, parent
                place = node if token >= 0 else PAD
                trials[:, b, trial] = torch.tensor([parent, place, parent + 1])
            counts.append(len(set(node_of)))
        before = torch.cat([torch.full((len(draws), 1), start), ids], 1)
        index = torch.where((before >= 0) & (before < size), before, 0)
        chain = self.parents == tuple(range(-1, count - 1))
        laws = OneHotLaws() if self.kind in WITHOUT_CHANCE else DenseLaws(self.draft[index])
        return Batch(
            TokenTree(ids, parents, tuple(counts), chain),
            Trials(*trials, self.kind),
            TargetRows(self.target.log(), index, [Sampling(1.0)] * size),
            laws,
            torch.tensor(weight or [1.0] * len(draws), dtype=torch.float64),
        )
