"""Random laws of a target and a draft, whole or of a part of the vocabulary, in float64."""

from __future__ import annotations

import numpy as np
import torch

from specbench.train.losses.rows import TargetProbs

ROWS, TOKENS = 7, 9


def logits(seed: int, rows: int = ROWS, tokens: int = TOKENS) -> torch.Tensor:
    """Float64 [rows, tokens], a law of many sizes."""
    chance = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(rows, tokens, dtype=torch.float64, generator=chance)


def softmax(rows: torch.Tensor) -> np.ndarray:
    """By definition, in numpy."""
    grown = np.exp(rows.numpy())
    return grown / grown.sum(1, keepdims=True)


def target(seed: int, drafted: int = TOKENS) -> tuple[TargetProbs, np.ndarray]:
    """A target over ``TOKENS`` tokens, of which a draft has the first ``drafted``.

    Returns:
        what losses take, and the target's whole law.
    """
    law = softmax(logits(seed))
    chance = np.random.default_rng(seed)
    token, best = chance.integers(0, TOKENS, ROWS), law.argmax(1)
    probs = TargetProbs(
        torch.from_numpy(law[:, :drafted]),
        torch.from_numpy(law[:, :drafted].sum(1)),
        torch.from_numpy(np.where(token < drafted, token, -1)),
        torch.from_numpy(np.where(best < drafted, best, -1)),
    )
    return probs, law
