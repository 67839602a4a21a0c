"""Target rows of one step, processed only as far as a rule asks.

Rows are packed: request b owns row ``index[b, 0]`` for its root (the last committed token) and
``index[b, 1 + n]`` for node n. Shapes: B requests, N nodes, M packed rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.sampling import RowContext, penalise, probabilities


class TargetRows:
    """Logits of the verified positions, with lazily derived views.

    Args:
        logits: [M, V], vocabulary padding already at -inf.
        index: int64 [B, N + 1] row of each position; padding repeats the root's row.
        sampling: settings of each packed row.
        contexts: tokens before each packed row; only needed where a row is penalised.
    """

    def __init__(
        self,
        logits: Tensor,
        index: Tensor,
        sampling: Sequence[Sampling],
        contexts: Sequence[RowContext] | None = None,
    ) -> None:
        self.raw = logits
        self.index = index
        self.sampling = sampling
        self.all_greedy = all(s.greedy for s in sampling)
        self._contexts = contexts
        self._adjusted: Tensor | None = None
        self._processed: Tensor | None = None
        self._argmax: Tensor | None = None

    @property
    def adjusted(self) -> Tensor:
        """Logits [M, V] after penalties and minimum length, before temperature."""
        if self._contexts is None:
            return self.raw
        if self._adjusted is None:
            self._adjusted = penalise(self.raw, self.sampling, self._contexts)
        return self._adjusted

    def argmax(self) -> Tensor:
        """int64 [B, N + 1]: the target's first choice at every position."""
        if self._argmax is None:
            self._argmax = self.adjusted.argmax(1)
        return self._argmax[self.index]

    def processed(self) -> Tensor:
        """Packed target probabilities [M, V] after all sampling settings."""
        if self._processed is None:
            self._processed = probabilities(self.adjusted, self.sampling)
        return self._processed

    def token_probs(self, tokens: Tensor) -> Tensor:
        """float32 [B, N]: processed probability of token n at the position of its parent.

        Only for chains: node n is judged by the row before it. Ids out of range give 0.
        """
        return self.gather(self.index[:, :-1], tokens)

    def gather(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Processed probability of ``tokens`` at packed ``rows``; ids out of range give 0."""
        probs = self.processed()
        inside = (tokens >= 0) & (tokens < probs.shape[1])
        return torch.where(inside, probs[rows, torch.where(inside, tokens, 0)], 0.0)

    def at(self, position: Tensor) -> Tensor:
        """Processed rows [B, V] at one position per request (0 = root)."""
        return self.processed()[self.index.gather(1, position[:, None]).squeeze(1)]
