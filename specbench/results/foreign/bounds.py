"""What a ratio of totals surely lies between where parts of it are known up to a choice."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial


def extremes(options: Sequence[Sequence[tuple[int, int]]]) -> tuple[float, float]:
    """Smallest and largest ratio of totals, one option (numerator, denominator) of each chosen.

    Dinkelbach's iteration: the best choice for a ratio gives the next ratio, until it stays.
    """
    found = []
    for sign in (-1, 1):
        ratio, better = float("nan"), _ratio([one[0] for one in options])
        while better != ratio:
            ratio = better
            chosen = [max(one, key=partial(_gain, sign, ratio)) for one in options]
            better = _ratio(chosen)
        found.append(ratio)
    return found[0], found[1]


def _gain(sign: int, ratio: float, option: tuple[int, int]) -> float:
    return sign * (option[0] - ratio * option[1])


def _ratio(chosen: Sequence[tuple[int, int]]) -> float:
    return sum(top for top, _ in chosen) / sum(bottom for _, bottom in chosen)
