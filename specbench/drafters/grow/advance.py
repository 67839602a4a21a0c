"""How growing a draft asks a model for its next rows, whatever the model is.

Shapes: n nodes, V' vocabulary of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Frontier:
    """Drafted nodes that a model is to process next: nodes of one depth, grouped by request.

    Attributes:
        owner: [n] place of the request in the batch, not decreasing.
        tokens: int64 [n] their ids.
        parent: [n] which processed node of the same request each follows, counting from 0 in the
            order in which that request's nodes were processed in this step; -1 = the committed
            tokens.
        depth: their depth, 1 for children of the root.
    """

    owner: Sequence[int]
    tokens: Tensor
    parent: Sequence[int]
    depth: int


class Advance(Protocol):
    """Processes drafted nodes in one forward; made anew for every step."""

    def __call__(self, frontier: Frontier) -> Tensor:
        """The draft's logits [n, V'] behind each node."""
        ...
