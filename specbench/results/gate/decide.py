"""One check: pass, fail, or not decided, from an interval and what A/A runs add to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from specbench.results.compare.joined import Joined, Places
from specbench.results.compare.measures import MEASURES
from specbench.results.compare.totals import Absent, totals_of
from specbench.results.gate.noise import Noise
from specbench.results.gate.rules import Check
from specbench.stats.bootstrap import LEVEL


class Outcome(StrEnum):
    """What a check came to."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Checked:
    """A check with its outcome.

    Attributes:
        what: measure.
        where: temperature, load and group of requests.
        why: what was found, in words.
        base, new: values; None where there are none.
        ratio, low, high: new / base with its interval, what A/A runs add included.
        allowed: the ratio at which it is as bad as it may be; None where nothing is measured.
        level: coverage of the interval.
    """

    what: str
    where: str
    outcome: Outcome
    why: str
    base: float | None = None
    new: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    allowed: float | None = None
    level: float = LEVEL


def decide(
    check: Check,
    joined: Joined,
    places: Places,
    noise: Noise,
    where: str,
    seed: int,
    alpha: float,
) -> Checked:
    """Hold one group of requests against what is allowed.

    Passed where the 95 % interval shows that it is not worse than allowed. Failed where the
    interval of coverage 1 - 2 ``alpha`` shows that it is, which is made for a chance of ``alpha``
    of a false failure at the border. Counts that A/A runs repeat exactly need no interval.
    """
    made = totals_of(check.metric, joined, places)
    if isinstance(made, Absent):
        return Checked(check.metric, where, Outcome.INCONCLUSIVE, made.why)
    ratio = made.ratio(seed)
    value, up = ratio.number(), made.up
    allowed = 1 - check.allow if up else 1 + check.allow
    base, new = (side.number() for side in made.values)
    values = base, new, value, ratio.low, ratio.high, allowed
    shown = Checked(check.metric, where, Outcome.INCONCLUSIVE, "", *values)
    told = partial(_told, shown)
    if made.equal:
        return told(Outcome.PASS, ratio.method.removeprefix("no interval: "))
    measure = MEASURES.get(check.metric)
    counted = measure is not None and not measure.timed
    if counted and noise.exact:
        broken = worse(value, allowed, up)
        changed = "A/A runs count the same in every request, and this one does not"
        return told(Outcome.FAIL if broken else Outcome.PASS, changed)
    if ratio.low is None or ratio.high is None:
        return told(Outcome.INCONCLUSIVE, ratio.method)
    if check.allow == 0:
        return told(Outcome.INCONCLUSIVE, ONLY_EXACT)
    if measure is not None and measure.timed and joined.apart and not noise.changes:
        return told(Outcome.INCONCLUSIVE, TWO_OCCASIONS)
    low, high = _widened(ratio.low, ratio.high, noise.width(LEVEL))
    told = partial(_told, replace(shown, low=low, high=high))
    # Not worse than allowed at the bad end of the interval.
    if not worse(low if up else high, allowed, up):
        return told(Outcome.PASS, "not worse than allowed")
    level = 1 - 2 * alpha
    wide = made.ratio(seed, level)
    if wide.low is not None and wide.high is not None:
        least, most = _widened(wide.low, wide.high, noise.width(level))
        if worse(most if up else least, allowed, up):
            return told(Outcome.FAIL, f"worse than allowed, at {alpha:g}")
    return told(Outcome.INCONCLUSIVE, "the interval holds what is allowed: more prompts decide")


ONLY_EXACT = "no change at all can be asked only of counts that A/A runs repeat exactly"
TWO_OCCASIONS = (
    "times of two occasions: A/A runs say how much those differ (specbench gate --calibrate), or "
    "check speedup"
)


def _told(shown: Checked, outcome: Outcome, why: str) -> Checked:
    return replace(shown, outcome=outcome, why=why)


def worse(ratio: float, allowed: float, up: bool) -> bool:
    """Whether a ratio is on the bad side of what is allowed."""
    return ratio < allowed if up else ratio > allowed


def _widened(low: float, high: float, width: float) -> tuple[float, float]:
    return low * math.exp(-width), high * math.exp(width)
