"""What drafters share that keep nothing of their own between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from specbench.decoding.protocols import Acceptance, Draft, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence


class StatelessDrafter:
    """Drafts from what the request or the target already holds; there is nothing to keep up."""

    taps: tuple[Tap, ...] = ()
    vocabulary: frozenset[int] | None = None

    def room(self, k: int) -> int:
        """The nodes of a chain."""
        return k

    def nodes(self, k: int) -> int:
        """The nodes of a chain."""
        return k

    def feeds(self, k: int) -> int:
        """No forward of its own."""
        return 0

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Nothing to prepare."""

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Nothing to learn."""

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Nothing to forget."""
