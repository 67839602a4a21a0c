"""What a step accepted, request by request, for drafters that keep up with the committed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.decoding.protocols import Acceptance, Draft
from specbench.decoding.sequence import Sequence as DecodedSequence


@dataclass(frozen=True, slots=True)
class Accepted:
    """One request's verdict on the host.

    Attributes:
        nodes: of the accepted path, from the root down.
        tokens: theirs.
        following: the token behind them.
    """

    nodes: Sequence[int]
    tokens: Sequence[int]
    following: int

    @property
    def committed(self) -> int:
        """Tokens that the step adds, unless a stop cuts them."""
        return len(self.nodes) + 1

    def goes_on(self, row: DecodedSequence, context: int) -> bool:
        """Whether the request, of as yet uncommitted tokens, can be drafted for once more.

        One that ends here, or outgrows the ``context`` positions that a draft knows, cannot.
        """
        return row.remaining > self.committed and row.length + self.committed <= context


def accepted_of(draft: Draft, acceptance: Acceptance) -> list[Accepted]:
    """The verdict of every request."""
    return [
        Accepted(path[:count], [line[node] for node in path[:count]], token)
        for line, path, count, token in zip(
            draft.tree.ids.tolist(),
            acceptance.path.tolist(),
            acceptance.n_accepted.tolist(),
            acceptance.next_token.tolist(),
            strict=True,
        )
    ]
