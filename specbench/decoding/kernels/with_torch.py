"""Sampling settings by torch's own operations, on every device."""

from __future__ import annotations

import torch
from torch import Tensor

_FIRST_GUESS = 64
"""Candidates examined first for top-p; doubled until they hold the mass."""


class TorchKernels:
    """Implements ``decoding.kernels.protocol.Kernels``."""

    name = "torch"

    def softmax(self, logits: Tensor, temperature: float) -> Tensor:
        """softmax(logits / temperature) in float32; see ``Kernels``."""
        scaled = logits.float()
        # A division is a pass over the vocabulary; by 1 it changes nothing.
        return torch.softmax(scaled if temperature == 1.0 else scaled / temperature, dim=-1)

    def top_k(self, probs: Tensor, k: int) -> Tensor:
        """The k likeliest and their equals; see ``Kernels``."""
        return _at_least(probs, probs.topk(k, dim=1).values[:, -1:])

    def top_p(self, probs: Tensor, p: float) -> Tensor:
        """The likeliest up to mass p and their equals; see ``Kernels``.

        On a CPU a partial selection instead of a full sort: the vocabulary is sorted only as far as
        needed. A device that runs behind the host would have to be waited for to learn how far.
        """
        vocabulary = probs.shape[1]
        count = min(_FIRST_GUESS, vocabulary) if probs.device.type == "cpu" else vocabulary
        values = probs.topk(count, dim=1).values
        while count < vocabulary and bool((values.sum(1) < p).any()):
            count = min(4 * count, vocabulary)
            values = probs.topk(count, dim=1).values
        before = values.cumsum(1, dtype=torch.float64) - values
        last = (before < p).sum(1, keepdim=True) - 1
        return _at_least(probs, values.gather(1, last))


def _at_least(probs: Tensor, least: Tensor) -> Tensor:
    """Rows [M, V] of what is no less likely than ``least`` [M, 1], renormalised.

    By value: which of several equal tokens a selection puts first is its own affair, and differs
    between devices.
    """
    kept = torch.where(probs < least, 0.0, probs)
    return kept.div_(kept.sum(1, keepdim=True))


TORCH = TorchKernels()
"""The kernels where nothing else is asked for."""
