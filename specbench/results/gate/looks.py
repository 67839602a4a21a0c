"""A check while its data still come in: several looks, which together err as often as one.

Passing and failing are both errors that can be made, and each spends its own rate over the looks
(``stats.spending``): ``alpha`` of a gate on false failures, and what lies outside of one end of a
95 % interval on false passes. Bounds are the jackknife's, by Student's t (``stats.jackknife``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from specbench.results.compare.joined import Joined, Places
from specbench.results.compare.measures import MEASURES
from specbench.results.compare.totals import Absent, Totals, totals_of
from specbench.results.gate.decide import ONLY_EXACT, Checked, Outcome, worse
from specbench.results.gate.rules import Check
from specbench.stats.bootstrap import LEVEL
from specbench.stats.jackknife import Estimate, jackknife
from specbench.stats.ratios import Array
from specbench.stats.spending import added

LOOKS = 5
"""Looks that are planned."""
FALSE_PASS = (1 - LEVEL) / 2
FEWEST = 8
"""Prompts below which an early look decides nothing."""
WIDE = 5.0
"""Half of an interval of a log ratio that says nothing."""
FAR = 1000.0
"""Times as much data as there is: no plan to give anybody."""


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        number: from 1; the last of ``LOOKS`` has all that the others left.
        before, now: share of the plan, 0 to 1, at the look before and at this one.
        minutes: that were measured so far.
        by_start: whether what differs between starts of servers is to be told from what differs
            between arms: servers that do not live beside each other.
    """

    number: int
    before: float
    now: float
    minutes: float
    by_start: bool

    @property
    def last(self) -> bool:
        """Whether there is no further one."""
        return self.now >= 1

    def tail(self, total: float) -> float:
        """What this look may spend of an error rate."""
        return added(total, self.before, self.now)


def decide_at(
    check: Check, joined: Joined, places: Places, where: str, look: Look, alpha: float
) -> Checked:
    """Hold one group of requests against what is allowed, at one look.

    Args:
        alpha: chance of a false failure, at the border of what is allowed, of all looks together.
    """
    made = totals_of(check.metric, joined, places)
    if isinstance(made, Absent):
        return Checked(check.metric, where, Outcome.INCONCLUSIVE, made.why)
    up = made.up
    allowed = 1 - check.allow if up else 1 + check.allow
    ratio = float(made.ratio_of(*made.columns))
    base, new = (side.number() for side in made.values)
    shown = Checked(
        check.metric,
        where,
        Outcome.INCONCLUSIVE,
        "",
        base,
        new,
        ratio,
        allowed=allowed,
    )
    units, columns = len(made.groups), made.columns
    if units < FEWEST and not look.last:
        return replace(shown, why=f"{units} prompts so far; {FEWEST} are the fewest that decide")
    if made.equal:
        return replace(shown, outcome=Outcome.PASS, why=f"equal on all {units} units")
    if check.allow == 0:
        return replace(shown, why=ONLY_EXACT)
    measure = MEASURES.get(check.metric)
    starts = (measure is None or measure.timed) and _by_start(made, look)
    if starts:
        columns = tuple(_by_group(column, made.groups) for column in columns)
    found = jackknife(columns, made.ratio_of.log)
    return _judged(shown, found, up, look, alpha, "starts" if starts else "prompts")


def _by_start(made: Totals, look: Look) -> bool:
    return look.by_start or len(np.unique(made.groups)) > 1


def _by_group(column: Array, groups: Array) -> Array:
    _, places = np.unique(groups, return_inverse=True)
    return np.bincount(places, column).astype(np.float64)


def _judged(
    shown: Checked, found: Estimate, up: bool, look: Look, alpha: float, what: str
) -> Checked:
    tail = look.tail(FALSE_PASS)
    half = found.half_width(tail)
    if not (half < WIDE and math.isfinite(found.value)):
        return replace(
            shown, why=f"{found.units} {what} do not show how much they differ; more decide"
        )
    assert shown.allowed is not None
    border = math.log(shown.allowed)
    low, high = math.exp(found.value - half), math.exp(found.value + half)
    shown = replace(shown, low=low, high=high, level=1 - 2 * tail)
    if not worse(found.value + (-half if up else half), border, up):
        return replace(shown, outcome=Outcome.PASS, why=f"not worse than allowed, {_at(look)}")
    far = found.half_width(look.tail(alpha))
    if worse(found.value + (far if up else -far), border, up):
        return replace(
            shown, outcome=Outcome.FAIL, why=f"worse than allowed, at {alpha:g}, {_at(look)}"
        )
    bound = far if worse(found.value, border, up) else half
    needed = _needed(found, border, bound)
    return replace(shown, why=_what_decides(shown, up, found.units, needed, look, what))


def _at(look: Look) -> str:
    return f"look {look.number} of {LOOKS}"


def _needed(found: Estimate, border: float, half: float) -> float:
    """Times as much data as there is that bring the bound there; errors fall as 1/sqrt n."""
    distance = abs(found.value - border)
    return (half / distance) ** 2 if distance else math.inf


def _what_decides(
    shown: Checked, up: bool, units: int, needed: float, look: Look, what: str
) -> str:
    assert shown.low is not None
    assert shown.high is not None
    bad = 1 - shown.low if up else shown.high - 1
    text = f"an allowed change of {100 * bad:.1f} % would have passed"
    if needed > FAR:
        return f"{text}; it lies so near to what is allowed that no number of {what} decides"
    more = math.ceil((needed - 1) * units)
    minutes = (needed - 1) * look.minutes
    return f"{text}; about {more} {what} more decide, in {minutes:.0f} minutes"
