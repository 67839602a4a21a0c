"""From contrasts to verdicts: what may be said once all measures that were asked are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specbench.core.quantity import Missing
from specbench.results.compare.contrast import Contrast
from specbench.stats.multiplicity import holm
from specbench.stats.power import ALPHA

ALONE = "a difference if it were the only test; fewer measures or more prompts decide"
DISAGREE = "interval and swap test do not agree; more prompts decide"


class Verdict(StrEnum):
    """What may be said of a measure."""

    BETTER = "better"
    WORSE = "worse"
    NO_DIFFERENCE = "no difference shown"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Judged:
    """A contrast with its verdict.

    Attributes:
        p: adjusted by Holm for the measures of its group; None where nothing was tested.
        why: what stands behind "undecided" and "not comparable"; empty for the others.
    """

    contrast: Contrast
    verdict: Verdict
    p: float | None
    why: str = ""


def judge(contrasts: Sequence[Contrast], alpha: float = ALPHA) -> list[Judged]:
    """Verdicts on the measures of one group of requests.

    A difference is claimed where the interval of the ratio excludes 1 and the swap test, adjusted
    for all measures of the group, is at most ``alpha``. Intervals that overlap are no test.
    """
    tested = [one.p for one in contrasts if one.p is not None and one.ratio.low is not None]
    adjusted = iter(holm(tested))
    return [_judged(one, adjusted, alpha) for one in contrasts]


def _judged(one: Contrast, adjusted: Iterator[float], alpha: float) -> Judged:
    ratio = one.ratio
    if isinstance(ratio.value, Missing):
        return Judged(one, Verdict.NOT_COMPARABLE, None, ratio.value.reason)
    if ratio.low is None or ratio.high is None or one.p is None:
        if ratio.value == one.neutral and one.p == 1.0:
            return Judged(one, Verdict.NO_DIFFERENCE, 1.0)
        return Judged(one, Verdict.UNDECIDED, None, ratio.method)
    p = next(adjusted)
    apart = ratio.low > one.neutral or ratio.high < one.neutral
    if apart and p <= alpha:
        good = (ratio.value > one.neutral) == one.up
        return Judged(one, Verdict.BETTER if good else Verdict.WORSE, p)
    if apart and one.p <= alpha:
        return Judged(one, Verdict.UNDECIDED, p, ALONE)
    if apart or p <= alpha:
        return Judged(one, Verdict.UNDECIDED, p, DISAGREE)
    return Judged(one, Verdict.NO_DIFFERENCE, p)
