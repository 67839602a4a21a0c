"""Columns of a measure on both sides, one entry per independent unit: all that is resampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from specbench.core.quantity import Quantity
from specbench.results.compare.joined import (
    BASE,
    BASE_PLAIN,
    NEW,
    NEW_PLAIN,
    Joined,
    Places,
)
from specbench.results.compare.measures import MEASURES, SPEEDUP, Measure
from specbench.results.compare.narrowed import narrowed
from specbench.results.compare.units import Units, unit_labels
from specbench.stats.bootstrap import LEVEL, grouped_interval
from specbench.stats.paired import permutation_statistic
from specbench.stats.power import ALPHA, POWER
from specbench.stats.ratios import QUOTIENT, RATIO_OF_RATIOS, Array, Ratios
from specbench.stats.resamples import Sums
from specbench.stats.spread import detectable

Columns = tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """A measure of both sides by unit.

    Attributes:
        measure: its name.
        unit: of the measure.
        up: whether more of it is better.
        base, new: columns of one entry per unit.
        statistic: of a side's columns.
        groups: which starts of the two servers decoded each unit.
        method: what was done to the columns, in words.
    """

    measure: str
    unit: str
    up: bool
    base: Columns
    new: Columns
    statistic: Ratios
    groups: Array
    method: str = ""

    @property
    def values(self) -> tuple[Quantity, Quantity]:
        """The measure of base and new."""
        one, other = (
            Quantity(float(self.statistic(*side)), self.unit, n=len(self.groups))
            for side in (self.base, self.new)
        )
        return one, other

    @property
    def equal(self) -> bool:
        """Whether both sides are the same in every unit."""
        return all(map(np.array_equal, self.base, self.new))

    @property
    def columns(self) -> Columns:
        """Of new, then of base."""
        return (*self.new, *self.base)

    @property
    def ratio_of(self) -> Ratios:
        """new / base, of ``columns``."""
        return self.statistic.over(self.statistic)

    def ratio(self, seed: int, level: float = LEVEL, sums: Sums | None = None) -> Quantity:
        """new / base with its interval, unit x; without one where the sides are equal.

        Args:
            sums: of ``stats.bootstrap.resampled``, made with this seed; None: they are made here.
        """
        units = len(self.groups)
        if self.equal:
            return Quantity(1.0, "x", n=units, method=f"no interval: equal on all {units} units")
        found = grouped_interval(
            self.columns, self.ratio_of, seed, "x", level, groups=self.groups, sums=sums
        )
        return replace(found, method=f"{found.method}{self.method}")

    def p(self, seed: int, sums: Sums | None = None) -> float:
        """Two-sided p-value of swapping the sides inside each unit; 1 where they are equal.

        Args:
            sums: of ``stats.paired.swapped``, made with this seed; None: they are made here.
        """
        if self.equal:
            return 1.0
        return permutation_statistic(self.new, self.base, self.statistic, seed=seed, sums=sums)

    def detectable(self, seed: int, sums: Sums | None = None) -> Quantity:
        """Relative difference that this many units show with probability 0.8, unit 1.

        Args:
            sums: as of ``ratio``.
        """
        found = detectable(
            self.columns,
            self.ratio_of.log,
            seed=seed,
            unit="1",
            alpha=ALPHA,
            power=POWER,
            groups=self.groups,
            sums=sums,
        )
        return replace(found, value=float(np.expm1(found.number()))) if found.known else found


@dataclass(frozen=True, slots=True)
class Absent:
    """Why there is nothing to compare in a measure; its unit, and whether more is better."""

    measure: str
    unit: str
    up: bool
    why: str


def totals_of(
    name: str, joined: Joined, places: Places, known: Mapping[str, Measure] = MEASURES
) -> Totals | Absent:
    """Columns of a measure on both sides.

    Args:
        name: of ``known``, or ``speedup``.
        places: which of the joined requests.
        known: measures by name.
    """
    if name == SPEEDUP:
        why = "no plain arm decoded these requests beside both"
        return _speedup(joined, places) or Absent(SPEEDUP, "x", True, why)
    measure = known[name]
    made = _measured(measure, joined, places)
    return made or Absent(measure.name, measure.unit, measure.up, measure.missing)


def _measured(measure: Measure, joined: Joined, places: Places) -> Totals | None:
    sides = [joined.of(side, places) for side in (BASE, NEW)]
    columns = [column(of) for of in sides for column in (measure.top, measure.bottom)]
    known = ~np.isnan(np.stack(columns)).any(axis=0)
    if not known.any():
        return None
    units = Units(unit_labels(joined, places, timed=measure.timed)[known])
    totals = [units.summed(column[known]) for column in columns]
    if any(not column.sum() for column in totals):
        return None
    base, new, method = (totals[0], totals[1]), (totals[2], totals[3]), ""
    if measure.name == "accept_length":
        base, new, method = narrowed(joined, places[known], units, base, new)
    groups = units.first(_starts(joined, places[known]))
    return Totals(measure.name, measure.unit, measure.up, base, new, QUOTIENT, groups, method)


def _speedup(joined: Joined, places: Places) -> Totals | None:
    """Decode time per token of each side's own plain over that of the side."""
    sides = (BASE_PLAIN, BASE, NEW_PLAIN, NEW)
    if not set(sides) <= set(joined.tables):
        return None
    read = [joined.of(side, places) for side in sides]
    columns = np.stack([of(name) for of in read for name in ("decode_ns", "decode_tokens")])
    known = (columns > 0).all(axis=0)
    if not known.any():
        return None
    units = Units(unit_labels(joined, places, timed=True)[known])
    totals = [units.summed(column) for column in columns[:, known]]
    groups = units.first(_starts(joined, places[known]))
    base, new = tuple(totals[:4]), tuple(totals[4:])
    return Totals(SPEEDUP, "x", True, base, new, RATIO_OF_RATIOS, groups)


def _starts(joined: Joined, places: Places) -> Array:
    """Which starts of the two servers decoded each request, as numbers."""
    one, other = (joined.of(side, places)("start") for side in (BASE, NEW))
    return one * 1_000_000 + other
