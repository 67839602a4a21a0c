"""Which slots a batch has, and which of the target's rows each drafting step is held against.

Slot t of a conversation x_0 .. x_{n-1} joins the target's hidden state of t with x_{t+1}; it
predicts x_{t+2}, that is, the target's row of t + 1. At drafting step s it joins the head's own
state with x_{t+1+s} and predicts the row of t + 1 + s. Row r is so met at every step, at slot
r - 1 - s: the same rows are judged at all depths, and figures of different depths can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of a batch. T tokens, S slots, M judged rows.

    Attributes:
        lengths: slots per conversation.
        tokens: int64 [S] packed place of each slot's hidden state.
        places: int64 [S] its place inside the conversation.
        ends: int64 [S] packed place of the conversation's last token.
        rows: int64 [M] packed places whose rows are judged.
        at: int64 [M] the slot that has row r at step 0; the one of step s lies s before it.
    """

    lengths: tuple[int, ...]
    tokens: Tensor
    places: Tensor
    ends: Tensor
    rows: Tensor
    at: Tensor

    def to(self, like: Tensor) -> Slots:
        """The same on the device of a tensor."""
        parts = (self.tokens, self.places, self.ends, self.rows, self.at)
        return Slots(self.lengths, *(part.to(like.device) for part in parts))

    def following(self, ids: Tensor, step: int) -> Tensor:
        """The token that each slot takes at a step; 0 behind the end, where no row is judged."""
        place = self.tokens + 1 + step
        inside = place <= self.ends
        return torch.where(inside, ids[torch.where(inside, place, 0)], 0)


def slots_of(
    lengths: Sequence[int], answers: Sequence[int], steps: int, *, whole: bool = False
) -> Slots:
    """Lay out the slots of packed conversations.

    Args:
        lengths: tokens per conversation, at least 2 each.
        answers: place of each answer's first token. The row behind it is the first that is ever
            drafted for: the prefill gives the token itself.
        steps: drafting steps; earlier rows than these have no slot at the last step. 0 where a
            draft has rows of its own, not slots: then every row but the last can be judged.
        whole: judge rows of the prompts too.
    """
    tokens, places, ends, rows, at = [], [], [], [], []
    first = slot = 0
    for length, answer in zip(lengths, answers, strict=True):
        count = length - 1
        inside = torch.arange(count)
        places.append(inside)
        tokens.append(inside + first)
        ends.append(torch.full((count,), first + length - 1))
        judged = torch.arange(min(max(steps, 0 if whole else answer), count), count)
        rows.append(judged + first)
        at.append(judged - 1 + slot)
        first += length
        slot += count
    return Slots(
        tuple(length - 1 for length in lengths), *map(torch.cat, (tokens, places, ends, rows, at))
    )
