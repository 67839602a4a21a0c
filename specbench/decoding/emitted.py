"""Tokens that a step emitted, with the rows and laws they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

NO_DRAFT = -1


@dataclass(frozen=True, slots=True)
class Emitted:
    """Emitted tokens of one step, flat over the batch.

    Attributes:
        owner: row of the batch each token belongs to.
        row: packed target row it was drawn or judged by.
        token: its id.
        law: draft law row at its position.
        draft: id drafted at its position, ``NO_DRAFT`` where there was none.
    """

    owner: list[int]
    row: list[int]
    token: list[int]
    law: list[int]
    draft: list[int]

    def add(self, owner: int, row: int, token: int, law: int, draft: int) -> None:
        """Append one token."""
        self.owner.append(owner)
        self.row.append(row)
        self.token.append(token)
        self.law.append(law)
        self.draft.append(draft)

    def part(self, chosen: Sequence[int]) -> Emitted:
        """The tokens at the given places."""
        return Emitted(*([getattr(self, f.name)[i] for i in chosen] for f in fields(self)))
