"""Learning rate over the steps of a training."""

from __future__ import annotations

import math

SCHEDULES = ("cosine", "linear", "constant")


def rate(step: int, total: int, warmup: float, schedule: str) -> float:
    """Share of the full learning rate at a step, counted from 0.

    It rises linearly over the first ``warmup`` share of all steps and then falls to 0: along half a
    cosine, linearly, or not at all.
    """
    rising = max(1, round(warmup * total))
    if step < rising:
        return (step + 1) / rising
    done = (step - rising) / max(1, total - rising)
    if schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
    return 1.0 if schedule == "constant" else max(0.0, 1 - done)
