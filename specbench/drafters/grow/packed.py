"""Advancing a packed causal LM over drafted nodes: each is one scratch row behind its prefix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
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
        self._lines: list[list[list[int]]] = [[] for _ in rows]
        self._tokens: list[list[tuple[Tensor, int]]] = [[] for _ in rows]

    def segments(self, frontier: Frontier) -> list[Segment]:
        """One segment per request with nodes in the frontier, in its order; the nodes are noted."""
        found = []
        for owner, group in groupby(range(len(frontier.owner)), lambda i: frontier.owner[i]):
            places = list(group)
            parents, depths, lines = self._parents[owner], self._depths[owner], self._lines[owner]
            before = len(parents)
            for row, i in enumerate(places, before):
                above = frontier.parent[i]
                parents.append(above)
                depths.append(frontier.depth)
                lines.append([*(lines[above] if above >= 0 else ()), row])
                self._tokens[owner].append((frontier.tokens, i))
            start, slab = self._starts[owner] + before, self._rows[owner].slab
            if parents == list(range(-1, len(parents) - 1)):
                # A path: everything before is an ancestor, so rows are in their places.
                found.append(Segment(slab, start, len(places)))
                continue
            visible = np.zeros((len(places), len(parents)), dtype=np.bool_)
            for seen, line in zip(visible, lines[before:], strict=True):
                seen[line] = True
            offsets = torch.tensor(depths) - 1
            found.append(Segment(slab, start, len(places), torch.from_numpy(visible), offsets))
        return found

    def along(self, owner: int, path: Sequence[int]) -> list[int]:
        """Scratch rows, from 0, of the tokens of ``path`` up to the first that has none.

        Args:
            owner: place of the request in the batch.
            path: tokens behind the committed ones.
        """
        found: list[int] = []
        # Read only now: while drafting nobody needs to know on the host what was drafted.
        read = {id(tokens): tokens.tolist() for tokens, _ in self._tokens[owner]}
        nodes = enumerate(zip(self._parents[owner], self._tokens[owner], strict=True))
        places = {(above, read[id(tokens)][i]): row for row, (above, (tokens, i)) in nodes}
        for token in path:
            row = places.get((found[-1] if found else -1, token))
            if row is None:
                break
            found.append(row)
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

    def along(self, owner: int, path: Sequence[int]) -> list[int]:
        """See ``Scratch.along``."""
        return self._scratch.along(owner, path)

    def __call__(self, frontier: Frontier) -> Tensor:
        """Logits [n, V'] behind the nodes."""
        segments = self._scratch.segments(frontier)
        logits, _ = self._model.forward(pack(segments, frontier.tokens, "all"))
        return logits
