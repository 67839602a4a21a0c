"""Recorded tokens in place of drafted ones, so that a draft's laws are those behind the record."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


class Recorded:
    """``decoding.sequence.Steering`` of one request at one place.

    Args:
        ahead: the recorded tokens that come next.
    """

    def __init__(self, ahead: Sequence[int]) -> None:
        self._ahead = ahead

    def row(self, path: Sequence[int], logits: Tensor) -> Tensor:
        """The logits as they are."""
        return logits

    def token(self, path: Sequence[int]) -> int | None:
        """The recorded token, as far as the record goes."""
        return self._ahead[len(path)] if len(path) < len(self._ahead) else None
