"""Growing a dynamic tree: expand what is likely, then keep the likeliest nodes.

Source: Li et al. 2406.16858 (EAGLE-2). A node's score is the draft's log-probability of its path.
Every level offers the ``top_k`` best tokens of every frontier node; all are recorded, and the
``top_k`` of highest score are the next frontier. Of everything recorded the N best nodes are
verified. As in EAGLE, probabilities are those at temperature 1 without truncation whatever the
request asks for: the tree depends on the committed tokens alone, and its children are chosen
without chance.
Shapes: B requests, n nodes of a frontier, V' vocabulary of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD, ROOT, TrialKind
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.advance import Advance, Frontier
from specbench.drafters.grow.candidates import best_tokens
from specbench.drafters.tree import stopped, token_tree, tree_draft


class Dynamic:
    """Grows trees of at most N nodes; a request's budget is the number of levels.

    Args:
        nodes: N, the root not counted.
        top_k: candidates per node, and nodes per frontier.
        rows_of: makes the draft's logits ready.
    """

    def __init__(self, nodes: int, top_k: int, rows_of: DraftRows) -> None:
        self._nodes = nodes
        self._top_k = top_k
        self._rows_of = rows_of

    def room(self, k: int) -> int:
        """Frontiers of all levels but the last are processed, ``nodes`` are verified."""
        return max(self._processed(k), self.nodes(k))

    def nodes(self, k: int) -> int:
        """N, or all candidates where they are fewer: ``top_k`` below the root and each frontier."""
        if k <= 0:
            return 0
        return min(self._nodes, self._top_k * (1 + self._processed(k)))

    def level(self, k: int) -> int:
        """A frontier; the last level has none."""
        return self._top_k if k > 1 else 0

    def _processed(self, k: int) -> int:
        return self._top_k * max(0, k - 1)

    def facts(self) -> dict[str, object]:
        """Kind and sizes."""
        return {"kind": "dynamic", "nodes": self._nodes, "top_k": self._top_k}

    def grow(
        self,
        rows: Sequence[DecodedSequence],
        budget: Sequence[int],
        first: Tensor,
        advance: Advance,
        short: Sequence[ShortDraft],
    ) -> Draft:
        """Grow ``budget[b]`` levels and keep N nodes; arguments and errors as ``Growth.grow``.

        ``Draft.proposed`` counts what was recorded. Of equal scores the node recorded first wins:
        a parent comes before its children, so the N best are a tree.
        """
        trees = [_Recorded() for _ in rows]
        level = [(b, ROOT) for b, n in enumerate(budget) if n > 0]
        logits = first[[b for b, _ in level]]
        for depth in range(1, max(budget) + 1):
            owners = [b for b, _ in level]
            paths = [trees[b].path(node) for b, node in level]
            tokens, gains = self._candidates(self._rows_of.ready(rows, owners, paths, logits))
            begun = {b: len(trees[b].tokens) for b in owners}
            for (b, node), line, gain in zip(level, tokens, gains, strict=True):
                trees[b].extend(node, line, gain)
            level = [
                (b, node)
                for b, start in begun.items()
                if budget[b] > depth
                for node in trees[b].best(self._top_k, start)
            ]
            if not level:
                break
            logits = advance(_frontier(trees, level, depth, first.device))
        kept = [tree.tree(self._nodes) for tree in trees]
        made = token_tree([line for line, _ in kept], [line for _, line in kept], first.device)
        proposed = [len(tree.tokens) for tree in trees]
        kind = TrialKind.DETERMINISTIC_SET
        return tree_draft(made, None, None, kind, stopped(made, budget, short), proposed)

    def _candidates(self, ready: Tensor) -> tuple[list[list[int]], list[list[float]]]:
        """The best tokens below each row of logits [n, V], and their log-probabilities."""
        tokens = best_tokens(ready, self._top_k)
        chances = torch.log_softmax(ready.float(), 1).gather(1, tokens.clamp(min=0))
        # Rounding must not lift a child above its parent.
        return tokens.tolist(), chances.clamp(max=0.0).tolist()


class _Recorded:
    """One request's candidates in the order in which they were found.

    Attributes:
        tokens: of every candidate.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._parents: list[int] = []
        self._scores: list[float] = []
        self._processed = {ROOT: ROOT}

    def path(self, node: int) -> list[int]:
        """Tokens on the way to a node, its own included."""
        found = []
        while node != ROOT:
            found.append(self.tokens[node])
            node = self._parents[node]
        return found[::-1]

    def extend(self, node: int, tokens: Sequence[int], gains: Sequence[float]) -> None:
        """Record candidates below a node; ``PAD`` is none."""
        score = 0.0 if node == ROOT else self._scores[node]
        for token, gain in zip(tokens, gains, strict=True):
            if token != PAD:
                self.tokens.append(token)
                self._parents.append(node)
                self._scores.append(score + gain)

    def best(self, count: int, start: int = 0) -> list[int]:
        """The candidates of highest score from ``start`` on, of equals the earliest first."""
        ranked = sorted(range(start, len(self.tokens)), key=lambda node: -self._scores[node])
        return ranked[:count]

    def process(self, node: int) -> int:
        """Count a node as processed; returns its parent among the processed ones."""
        self._processed[node] = len(self._processed) - 1
        return self._processed[self._parents[node]]

    def tree(self, count: int) -> tuple[list[int], list[int]]:
        """Tokens and parents of the ``count`` best candidates."""
        kept = sorted(self.best(count))
        place = {node: i for i, node in enumerate(kept)} | {ROOT: ROOT}
        parents = [place[self._parents[node]] for node in kept]
        return [self.tokens[node] for node in kept], parents


def _frontier(
    trees: Sequence[_Recorded], level: Sequence[tuple[int, int]], depth: int, device: torch.device
) -> Frontier:
    tokens = torch.tensor([trees[b].tokens[node] for b, node in level], device=device)
    return Frontier(
        [b for b, _ in level], tokens, [trees[b].process(node) for b, node in level], depth
    )
