"""Measures of two sides on the same requests: ratio, interval, test, and what was detectable.

Many are worked out together. Those of equally many units share their resamples and swaps, and one
product of matrices takes them all (``stats.resamples``): one run against a hundred others is then a
few wide products, in which the columns of the one are multiplied once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specbench.core.quantity import Quantity, nothing
from specbench.results.compare.totals import Absent, Totals
from specbench.stats.bootstrap import LEVEL, resampled
from specbench.stats.paired import swapped

TOGETHER = 128
"""Measures in one product: enough for it to be fast, few enough for some 100 MB of totals."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """A measure of two sides.

    Attributes:
        measure: its name.
        base, new: its values, on the requests of both.
        ratio: new / base with its interval, unit x; of scores new - base, in their unit.
        p: two-sided, of swapping the sides inside each unit; None where nothing can be tested.
        detectable: difference that this many units show with probability 0.8, relative and in unit
            1; of scores in their unit.
        up: whether more is better.
        neutral: ``ratio`` where both sides are alike: 1, or 0 of a difference.
    """

    measure: str
    base: Quantity
    new: Quantity
    ratio: Quantity
    p: float | None
    detectable: Quantity
    up: bool
    neutral: float = 1.0


def contrasts(made: Sequence[Totals | Absent], seed: int, level: float = LEVEL) -> list[Contrast]:
    """Compare measures, each on requests of its own.

    Args:
        made: columns of both sides, or why there are none.
        seed: of the resampling, the same for all.
        level: coverage of the intervals.
    """
    found = dict[int, Contrast]()
    for place, one in enumerate(made):
        if isinstance(one, Absent):
            found[place] = _absent(one)
        elif one.equal:
            found[place] = _equal(one, seed)
    for some in _together(made):
        drawn = resampled([one.columns for one in some.values()], seed)
        moved = swapped([(one.new, one.base) for one in some.values()], seed)
        for place, one in some.items():
            found[place] = Contrast(
                one.measure,
                *one.values,
                one.ratio(seed, level, drawn),
                one.p(seed, moved),
                one.detectable(seed, drawn),
                one.up,
            )
    return [found[place] for place in range(len(made))]


def _absent(one: Absent) -> Contrast:
    value, ratio, power = (nothing(one.why, unit) for unit in (one.unit, "x", "1"))
    return Contrast(one.measure, value, value, ratio, None, power, one.up)


def _equal(one: Totals, seed: int) -> Contrast:
    ratio = one.ratio(seed)
    return Contrast(one.measure, *one.values, ratio, 1.0, nothing(ratio.method, "1"), one.up)


def _together(made: Sequence[Totals | Absent]) -> Iterator[dict[int, Totals]]:
    """Measures whose sides differ, with their places, a few at a time of equally many units."""
    alike: dict[int, dict[int, Totals]] = {}
    for place, one in enumerate(made):
        if isinstance(one, Totals) and not one.equal:
            alike.setdefault(len(one.groups), {})[place] = one
    for some in alike.values():
        places = list(some)
        for first in range(0, len(places), TOGETHER):
            yield {place: some[place] for place in places[first : first + TOGETHER]}
