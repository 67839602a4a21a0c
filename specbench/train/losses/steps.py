"""How the losses of several drafting steps, or heads, become one."""

from __future__ import annotations


def step_weights(count: int, decay: float, *, normalised: bool) -> list[float]:
    """Weight of each of ``count`` steps, decay ** i.

    EAGLE-3's training-time test adds up with decay 0.8, Medusa's heads too (0.8 ** k from k = 1 on,
    which differs by a factor), FastMTP normalises 0.6 ** k to a sum of 1.
    """
    weights = [decay**step for step in range(count)]
    total = sum(weights) if normalised else 1.0
    return [weight / total for weight in weights]
