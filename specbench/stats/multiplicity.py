"""Several tests at once: adjusted p-values."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (Holm 1979), in the order of the input.

    Rejecting where the adjusted value is at most alpha keeps the chance of any false rejection
    at or below alpha, whatever the dependence between the tests.
    """
    count, running = len(p_values), 0.0
    adjusted = [0.0] * count
    for rank, index in enumerate(sorted(range(count), key=p_values.__getitem__)):
        running = max(running, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
