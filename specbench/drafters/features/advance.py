"""Advancing a head over drafted nodes: each takes the hidden state that its parent left.

Shapes: B requests, n nodes of a frontier, H hidden size of the head.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import to_device
from specbench.drafters.grow.advance import Frontier
from specbench.drafters.grow.packed import Scratch
from specbench.models.heads.packed import PackedHead
from specbench.models.packed_batch import pack


class HeadAdvance:
    """``grow.advance.Advance`` of a head with KV.

    A slot is placed by its hidden state, so a node of depth d lies d - 1 behind the committed
    slots: one place before the token itself.

    Args:
        head: the head.
        rows: the batch.
        starts: committed slots per request.
        hidden: [B, H] state that the last committed slot left, parent of depth 1.
    """

    def __init__(
        self,
        head: PackedHead,
        rows: Sequence[DecodedSequence],
        starts: Sequence[int],
        hidden: Tensor,
    ) -> None:
        self._head = head
        self._scratch = Scratch(rows, starts)
        self._hidden = hidden
        self._processed: list[list[int]] = [[] for _ in rows]

    def __call__(self, frontier: Frontier) -> Tensor:
        """Logits [n, V] behind the nodes."""
        parents = [
            self._processed[owner][parent] if parent >= 0 else owner
            for owner, parent in zip(frontier.owner, frontier.parent, strict=True)
        ]
        hidden = self._hidden[to_device(torch.tensor(parents), self._hidden.device)]
        batch = pack(self._scratch.segments(frontier), frontier.tokens, "all")
        logits, left = self._head.forward(batch, hidden, fresh=False)
        known = len(self._hidden)
        for place, owner in enumerate(frontier.owner):
            self._processed[owner].append(known + place)
        self._hidden = torch.cat([self._hidden, left])
        return logits
