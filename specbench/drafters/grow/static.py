"""Growing a static tree: its shape says which candidates of which nodes are drafted.

Sources: Cai et al. 2401.10774 (Medusa: ranks of the best tokens); Li et al. 2401.15077 (EAGLE-1)
and Jeon et al. 2402.14160 (children drawn without replacement above temperature 0).
Shapes: B requests, n nodes of a level, c candidates, V target vocabulary, V' of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.sampling import draw_without_replacement
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.shapes.shape import TreeShape
from specbench.decoding.tree import PAD, ROOT, TrialKind
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.advance import Advance, Frontier
from specbench.drafters.grow.candidates import best_tokens, draft_numbers, sampling_name
from specbench.drafters.tree import stopped, token_tree, tree_draft

Below = dict[int, list[int]]
"""Nodes of a shape by parent, in the order of their ranks; leaves have no entry."""


def gap(shape: TreeShape) -> tuple[int, ...] | None:
    """A rank path whose next better sibling is not in the shape; None where there is none."""
    paths = shape.paths()
    known = set(paths)
    return next((p for p in paths if p[-1] and (*p[:-1], p[-1] - 1) not in known), None)


class Static:
    """Grows trees of one shape, level by level; a request's budget cuts its depth.

    Args:
        shape: what is drafted. The child of rank r is the r-th candidate of its parent's row.
        rows_of: makes the draft's logits ready.
        sampled: candidates are draws without replacement from the processed row; False takes its
            best tokens, as requests at temperature 0 always do.

    Raises:
        ValueError: a sampled shape that leaves out a rank. What is tried behind a draw that is
            not has another law than any rule knows.
    """

    def __init__(self, shape: TreeShape, rows_of: DraftRows, sampled: bool) -> None:
        missing = gap(shape)
        if sampled and missing is not None:
            raise ValueError(f"the path {list(missing)} has no sibling of the rank before it")
        self._rows_of = rows_of
        self._sampled = sampled
        self._shape = shape
        self._ranks = shape.ranks
        cuts = [shape.cut(depth) for depth in range(shape.depth + 1)]
        self._sizes = [len(cut) for cut in cuts]
        self._below = [_below(cut) for cut in cuts]
        inner = [shape.depths[node] for node in self._below[-1] if node != ROOT]
        # By depth; the root, at 0, is none of the nodes.
        self._inner = [inner.count(depth) for depth in range(shape.depth)]

    def room(self, k: int) -> int:
        """Nodes of the shape down to depth ``k``."""
        return self._sizes[min(max(k, 0), len(self._sizes) - 1)]

    def nodes(self, k: int) -> int:
        """The same: what is drafted is verified."""
        return self.room(k)

    def level(self, k: int) -> int:
        """Inner nodes of the widest depth above ``k``."""
        return max(self._inner[: max(k, 1)], default=0)

    def facts(self) -> dict[str, object]:
        """Kind, sampling and the shape, whatever file or search it came from."""
        return {"kind": "static", "sampling": sampling_name(self._sampled), **self._shape.facts()}

    def grow(
        self,
        rows: Sequence[DecodedSequence],
        budget: Sequence[int],
        first: Tensor,
        advance: Advance,
        short: Sequence[ShortDraft],
    ) -> Draft:
        """Draft the shape down to ``budget[b]``; arguments and errors as ``Growth.grow``.

        A row with fewer tokens than candidates gives as many nodes as it has; what the shape has
        below the others is left out. Siblings share their parent's law row: 0 for the root, then
        inner nodes in the order in which they were processed.
        """
        deepest = len(self._below) - 1
        trees = [_Growing(self._below[min(max(n, 0), deepest)], self._ranks) for n in budget]
        dense = self._sampled and not all(row.request.sampling.greedy for row in rows)
        # Probabilities are float32 whatever the model computes in.
        size = (len(rows), max(len(tree.below) for tree in trees), self._rows_of.vocabulary)
        laws = first.new_zeros(size, dtype=torch.float32) if dense else None
        level = [(b, ROOT) for b, tree in enumerate(trees) if tree.below]
        logits = first[[b for b, _ in level]]
        for depth in range(1, deepest + 1):
            owners = [b for b, _ in level]
            paths = [trees[b].path[node] for b, node in level]
            ready = self._rows_of.ready(rows, owners, paths, logits)
            found = self._candidates(rows, trees, level, ready, laws)
            level = [
                (b, child)
                for (b, node), tokens in zip(level, found, strict=True)
                for child in trees[b].extend(node, tokens)
            ]
            if not level:
                break
            logits = advance(_frontier(trees, level, depth, first.device))
        tokens, parents = [tree.tokens for tree in trees], [tree.parents for tree in trees]
        made = token_tree(tokens, parents, first.device)
        law = None if laws is None else [tree.law for tree in trees]
        kind = TrialKind.DETERMINISTIC_SET if laws is None else TrialKind.WITHOUT_REPLACEMENT
        return tree_draft(made, law, laws, kind, stopped(made, budget, short), made.counts)

    def _candidates(
        self,
        rows: Sequence[DecodedSequence],
        trees: Sequence[_Growing],
        level: Sequence[tuple[int, int]],
        ready: Tensor,
        laws: Tensor | None,
    ) -> list[list[int]]:
        """Candidates [n][c] below the nodes of a level, ``PAD`` where a row has no more of them.

        Their laws are written to ``laws`` [B, rows, V].
        """
        nodes = [trees[b].below[node] for b, node in level]
        count = max(self._ranks[line[-1]] for line in nodes) + 1
        if laws is None:
            return best_tokens(ready, count).tolist()
        owners = [b for b, _ in level]
        law = self._rows_of.laws(rows, owners, ready)
        laws[owners, [trees[b].row[node] for b, node in level]] = law
        # Sampled shapes leave no rank out, so the r-th child is the r-th draw; what a row with
        # fewer children draws behind them is not used.
        numbers = draft_numbers(
            [rows[b] for b in owners], [[*line, *[0] * (count - len(line))] for line in nodes]
        )
        found = draw_without_replacement(law, numbers.to(law.device))
        cold = [i for i, b in enumerate(owners) if rows[b].request.sampling.greedy]
        if cold:
            found[cold] = best_tokens(ready[cold], count)
        return found.tolist()


class _Growing:
    """One request's tree as far as it has grown; nodes of the shape name those of the tree.

    Attributes:
        below: the shape's nodes by parent.
        tokens, parents, law: of the tree's nodes, in order.
        path: shape node -> tokens on the way to it.
        row: shape node that was or will be processed -> its law row.
    """

    def __init__(self, below: Below, ranks: Sequence[int]) -> None:
        self.below = below
        self._ranks = ranks
        self._place = {ROOT: ROOT}
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.law: list[int] = []
        self.path: dict[int, tuple[int, ...]] = {ROOT: ()}
        self.row = {ROOT: 0}

    def extend(self, node: int, candidates: Sequence[int]) -> list[int]:
        """Add the children of a node; returns those that have children themselves."""
        inner = []
        for child in self.below[node]:
            token = candidates[self._ranks[child]]
            if token == PAD:
                continue
            self._place[child] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(self._place[node])
            self.law.append(self.row[node])
            if child in self.below:
                self.path[child] = (*self.path[node], token)
                self.row[child] = len(self.row)
                inner.append(child)
        return inner

    def token(self, node: int) -> int:
        """The token of a node."""
        return self.tokens[self._place[node]]

    def above(self, node: int) -> int:
        """The parent of a node among those that are processed, ``ROOT`` for the root."""
        return self.law[self._place[node]] - 1


def _below(shape: TreeShape) -> Below:
    found: Below = {}
    for node, parent in enumerate(shape.parents):
        found.setdefault(parent, []).append(node)
    return found


def _frontier(
    trees: Sequence[_Growing], level: Sequence[tuple[int, int]], depth: int, device: torch.device
) -> Frontier:
    tokens = torch.tensor([trees[b].token(node) for b, node in level], device=device)
    above = [trees[b].above(node) for b, node in level]
    return Frontier([b for b, _ in level], tokens, above, depth)
