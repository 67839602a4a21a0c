"""No drafting: the plain arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext
from specbench.drafters.chain import one_hot_draft

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

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> NoDrafter:
        """No options."""
        return cls()

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Nothing to prepare."""

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """An empty draft for every row."""
        return one_hot_draft([[] for _ in rows], [ShortDraft.OFF] * len(rows))

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
