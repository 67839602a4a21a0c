"""No drafting: the plain arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext
from specbench.drafters.chain import no_draft

INFO = DrafterInfo(
    name="none",
    summary="plain decoding: one target forward per token",
    source="the arm every speed-up is paired with",
    law="none",
)


class NoDrafter:
    """Proposes nothing."""

    info = INFO
    taps: tuple[Tap, ...] = ()

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device or torch.device("cpu")

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> NoDrafter:
        """No options."""
        return cls(context.target.device)

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Nothing to prepare."""

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """An empty draft for every row."""
        return no_draft([ShortDraft.OFF] * len(rows), self._device)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Nothing to learn."""

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Nothing to forget."""
