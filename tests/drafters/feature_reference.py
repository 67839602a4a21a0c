"""What a head drafts by definition: whole sequences, one path, no KV, no batch, no tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Reference(Protocol):
    """A head as it is defined, over whole sequences; ``ids`` are the tokens it knows."""

    ids: Tensor | None

    def begin(self, features: Tensor) -> Tensor: ...

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, visible: Tensor) -> Tensor: ...

    def logits(self, states: Tensor) -> Tensor: ...

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor: ...


def defined(
    head: Reference, features: Tensor, tokens: Sequence[int], path: Sequence[int], width: int
) -> Tensor:
    """Logits [V] behind ``path``.

    Args:
        features: [n - 1, F] of the target at tokens 0 .. n - 2.
        tokens: the n committed ones; slot t holds features t and token t + 1, at position t.
        path: tokens drafted behind them; each takes the state that the slot before it left.
        width: V.
    """

    def states_of(ids: list[int], hidden: Tensor) -> Tensor:
        at = torch.arange(len(ids))
        return head.states(torch.tensor(ids), hidden, at, at[None, :] <= at[:, None])

    ids, hidden = list(tokens[1:]), head.begin(features)
    states = states_of(ids, hidden)
    for token in path:
        ids, hidden = [*ids, token], torch.cat([hidden, head.recycle(states, hidden)[-1:]])
        states = states_of(ids, hidden)
    logits = head.logits(states[-1:])[0]
    if head.ids is None:
        return logits
    return torch.full((width,), -torch.inf).index_copy(0, head.ids, logits)
