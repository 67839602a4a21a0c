"""Advancing a packed causal LM over drafted nodes: each is one scratch row behind its prefix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.grow.advance import Frontier
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward


class Scratch:
    """Where this step's drafted nodes lie behind the valid KV rows, per request of the batch.

    Args:
        rows: the batch.
        starts: KV rows of the draft that are valid before the first drafted token.
    """

    def __init__(self, rows: Sequence[DecodedSequence], starts: Sequence[int]) -> None:
        self._rows = rows
        self._starts = starts
        self._parents: list[list[int]] = [[] for _ in rows]
        self._depths: list[list[int]] = [[] for _ in rows]

    def segments(self, frontier: Frontier) -> list[Segment]:
        """One segment per request with nodes in the frontier, in its order; the nodes are noted."""
        found = []
        for owner, group in groupby(range(len(frontier.owner)), lambda i: frontier.owner[i]):
            places = list(group)
            parents, depths = self._parents[owner], self._depths[owner]
            before = len(parents)
            parents += [frontier.parent[i] for i in places]
            depths += [frontier.depth] * len(places)
            start, slab = self._starts[owner] + before, self._rows[owner].slab
            if parents == list(range(-1, len(parents) - 1)):
                # A path: everything before is an ancestor, so rows are in their places.
                found.append(Segment(slab, start, len(places)))
                continue
            visible = torch.zeros(len(places), len(parents), dtype=torch.bool)
            for line, node in enumerate(range(before, len(parents))):
                while node >= 0:
                    visible[line, node] = True
                    node = parents[node]
            offsets = torch.tensor(depths) - 1
            found.append(Segment(slab, start, len(places), visible, offsets))
        return found


class PackedAdvance:
    """``grow.advance.Advance`` of a packed model with KV.

    Args:
        model: the draft.
        rows, starts: as in ``Scratch``.
    """

    def __init__(
        self,
        model: PackedForward,
        rows: Sequence[DecodedSequence],
        starts: Sequence[int],
    ) -> None:
        self._model = model
        self._scratch = Scratch(rows, starts)

    def __call__(self, frontier: Frontier) -> Tensor:
        """Logits [n, V'] behind the nodes."""
        segments = self._scratch.segments(frontier)
        logits, _ = self._model.forward(pack(segments, frontier.tokens, "all"))
        return logits
