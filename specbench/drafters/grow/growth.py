"""What grows drafts: a chain, a static tree or a dynamic one, for every drafter with logits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.grow.advance import Advance


class Growth(Protocol):
    """Grows the drafts of a batch from the draft's rows behind the committed tokens."""

    def room(self, k: int) -> int:
        """KV rows of a step with longest path ``k``, at most: nodes that are processed or verified.

        More than ``nodes`` where more is processed than is kept.
        """
        ...

    def nodes(self, k: int) -> int:
        """Nodes of a draft with longest path ``k``, at most."""
        ...

    def level(self, k: int) -> int:
        """Nodes of one request that ``advance`` gets at once, at most; leaves are not processed."""
        ...

    def facts(self) -> Mapping[str, object]:
        """What is grown, as far as options do not spell it out, for records."""
        ...

    def grow(
        self,
        rows: Sequence[DecodedSequence],
        budget: Sequence[int],
        first: Tensor,
        advance: Advance,
        short: Sequence[ShortDraft],
    ) -> Draft:
        """Draft at most ``budget[b]`` tokens on the longest path of each row.

        Args:
            rows: the batch; at least one budget is above 0.
            budget: longest path per request.
            first: [B, V'] draft row behind the committed tokens; rows without budget are not read.
            advance: processes drafted nodes.
            short: per request, why it drafts fewer than asked.

        Raises:
            BrokenRowsError: a draft row names no token.
        """
        ...
