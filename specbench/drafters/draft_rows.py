"""Draft logits as the target sees them: its vocabulary, the request's settings, nothing broken."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specbench.decoding.context import context_of, needs_context
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.sampling import penalise, probabilities
from specbench.decoding.sequence import Sequence as DecodedSequence


class DraftRows:
    """Makes rows of a draft ready to choose tokens from. Every drafter with logits goes through it.

    Args:
        vocabulary: V of the target; wider draft rows are cut, narrower ones padded with -inf.
        deferred: whether chains leave it to ``Draft.sound`` to tell of broken rows, so that the
            host need not wait for them; all other growths look at once.
        kernels: what applies the settings, as to the target's rows.
    """

    def __init__(self, vocabulary: int, deferred: bool = False, kernels: Kernels = TORCH) -> None:
        self.vocabulary = vocabulary
        self.deferred = deferred
        self._kernels = kernels

    def ready(
        self,
        rows: Sequence[DecodedSequence],
        owners: Sequence[int],
        paths: Sequence[Sequence[int]],
        logits: Tensor,
        sound: list[Tensor] | None = None,
    ) -> Tensor:
        """Logits [n, V] after the request's penalties and minimum length, before its temperature.

        Args:
            rows: the batch.
            owners: [n] whose row each is, as places in the batch.
            paths: [n] tokens drafted on the way to each place; they count for penalties and length.
            logits: [n, V'] the draft's.
            sound: gets bool [n], whether each row names a token, instead of an exception.

        Raises:
            BrokenRowsError: a row names no token.
        """
        logits = self.fit(logits)
        fine = logits.amax(1).isfinite()
        if sound is not None:
            sound.append(fine)
        elif not all(told := fine.tolist()):
            broken = {owner for owner, good in zip(owners, told, strict=True) if not good}
            raise BrokenRowsError(sorted(broken), "draft")
        chosen = [rows[owner] for owner in owners]
        if needs_context(chosen):
            contexts = [context_of(row, path) for row, path in zip(chosen, paths, strict=True)]
            logits = penalise(logits, [row.request.sampling for row in chosen], contexts)
        if any(row.steering for row in chosen):
            logits = torch.stack(
                [
                    row.steering.row(path, line) if row.steering else line
                    for row, path, line in zip(chosen, paths, logits, strict=True)
                ]
            )
        return logits

    def fit(self, logits: Tensor) -> Tensor:
        """Rows in the target's vocabulary width."""
        missing = self.vocabulary - logits.shape[1]
        if missing > 0:
            return functional.pad(logits, (0, missing), value=-torch.inf)
        return logits[:, : self.vocabulary]

    def laws(
        self, rows: Sequence[DecodedSequence], owners: Sequence[int], logits: Tensor
    ) -> Tensor:
        """Probabilities float32 [n, V] of ready rows under each request's settings."""
        settings = [rows[owner].request.sampling for owner in owners]
        return probabilities(logits, settings, self._kernels)


def reads_paths(rows: Sequence[DecodedSequence], owners: Sequence[int]) -> bool:
    """Whether ``ready`` looks at the tokens drafted on the way to these requests' rows."""
    chosen = [rows[owner] for owner in owners]
    return needs_context(chosen) or any(row.steering for row in chosen)
