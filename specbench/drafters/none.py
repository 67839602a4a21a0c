"""No drafting: the plain arm."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft, DrafterInfo, DraftFacts
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext
from specbench.drafters.chain import no_draft
from specbench.drafters.stateless import StatelessDrafter

INFO = DrafterInfo(
    name="none",
    summary="plain decoding: one target forward per token",
    source="the arm every speed-up is paired with",
    default=DraftFacts("none"),
)


class NoDrafter(StatelessDrafter):
    """Proposes nothing."""

    info = INFO

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device or torch.device("cpu")

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> NoDrafter:
        """No options."""
        return cls(context.target.device)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """An empty draft for every row."""
        return no_draft([ShortDraft.OFF] * len(rows), self._device)
