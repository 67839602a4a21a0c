"""One measure of two sides on the same requests: ratio, interval, test, and what was detectable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from specbench.core.quantity import Quantity, nothing
from specbench.results.compare.joined import (
    BASE,
    BASE_PLAIN,
    NEW,
    NEW_PLAIN,
    Joined,
    summed,
    unit_labels,
)
from specbench.results.compare.measures import MEASURES, SPEEDUP, Measure
from specbench.results.compare.narrowed import narrowed
from specbench.stats.bootstrap import LEVEL, grouped_interval, quotient
from specbench.stats.paired import permutation_statistic
from specbench.stats.power import ALPHA, POWER
from specbench.stats.resamples import Array, Statistic
from specbench.stats.spread import detectable

Columns = tuple[Array, ...]


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


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """A measure of both sides by unit.

    Attributes:
        unit: of the measure.
        up: whether more of it is better.
        base, new: columns of one entry per unit.
        statistic: of a side's columns, along the axis of units.
        groups: which starts of the two servers decoded each unit.
        method: what was done to the columns, in words.
    """

    unit: str
    up: bool
    base: Columns
    new: Columns
    statistic: Statistic
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

    def ratio(self, seed: int, level: float = LEVEL) -> Quantity:
        """new / base with its interval, unit x; without one where the sides are equal."""
        units = len(self.groups)
        if self.equal:
            return Quantity(1.0, "x", n=units, method=f"no interval: equal on all {units} units")
        both = (*self.new, *self.base)
        found = grouped_interval(both, self.ratio_of, seed, "x", level, groups=self.groups)
        return replace(found, method=f"{found.method}{self.method}")

    def p(self, seed: int) -> float:
        """Two-sided p-value of swapping the sides inside each unit; 1 where they are equal."""
        if self.equal:
            return 1.0
        return permutation_statistic(self.new, self.base, self.statistic, seed=seed)

    def detectable(self, seed: int) -> Quantity:
        """Relative difference that this many units show with probability 0.8, unit 1."""
        found = detectable(
            (*self.new, *self.base),
            self.log_ratio,
            seed=seed,
            unit="1",
            alpha=ALPHA,
            power=POWER,
            groups=self.groups,
        )
        return replace(found, value=float(np.expm1(found.number()))) if found.known else found

    def log_ratio(self, *both: Array, axis: int = -1) -> Any:
        """Of ``(*new, *base)``, along the axis of units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.ratio_of(*both, axis=axis))

    def ratio_of(self, *both: Array, axis: int = -1) -> Any:
        """new / base of ``(*new, *base)``, along the axis of units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            new = self.statistic(*both[: len(self.new)], axis=axis)
            return new / self.statistic(*both[len(self.new) :], axis=axis)


def contrast(
    name: str,
    joined: Joined,
    rows: pd.DataFrame,
    seed: int,
    level: float = LEVEL,
    known: Mapping[str, Measure] = MEASURES,
) -> Contrast:
    """Compare one measure over some of the joined requests.

    Args:
        name: of ``known``, or ``speedup``.
        rows: those requests of ``joined.rows``.
        seed: of the resampling.
        level: coverage of the interval.
        known: measures by name.
    """
    made = totals_of(name, joined, rows, known)
    if isinstance(made, Absent):
        absent = nothing(made.why, made.unit)
        ratio, power = nothing(made.why, "x"), nothing(made.why, "1")
        return Contrast(name, absent, absent, ratio, None, power, made.up)
    base, new = made.values
    ratio = made.ratio(seed, level)
    if made.equal:
        return Contrast(name, base, new, ratio, 1.0, nothing(ratio.method, "1"), made.up)
    return Contrast(name, base, new, ratio, made.p(seed), made.detectable(seed), made.up)


@dataclass(frozen=True, slots=True)
class Absent:
    """Why there is nothing to compare in a measure; its unit, and whether more is better."""

    unit: str
    up: bool
    why: str


def totals_of(
    name: str, joined: Joined, rows: pd.DataFrame, known: Mapping[str, Measure] = MEASURES
) -> Totals | Absent:
    """Columns of a measure on both sides; arguments as of ``contrast``."""
    if name == SPEEDUP:
        why = "no plain arm decoded these requests beside both"
        return _speedup(joined, rows) or Absent("x", True, why)
    measure = known[name]
    made = _measured(measure, joined, rows)
    return made or Absent(measure.unit, measure.up, measure.missing)


def _measured(measure: Measure, joined: Joined, rows: pd.DataFrame) -> Totals | None:
    sides = [joined.side(suffix, rows) for suffix in (BASE, NEW)]
    columns = [column(side) for side in sides for column in (measure.top, measure.bottom)]
    known = pd.concat(columns, axis=1).notna().all(axis=1)
    if not known.any():
        return None
    labels = unit_labels(rows, timed=measure.timed, apart=joined.apart)[known]
    totals = [summed(labels, column[known]) for column in columns]
    if any(not column.sum() for column in totals):
        return None
    base, new = (totals[0], totals[1]), (totals[2], totals[3])
    groups = _groups(rows[known], labels)
    unit, up = measure.unit, measure.up
    if measure.name != "accept_length":
        return Totals(unit, up, base, new, quotient, groups)
    before, after, method = narrowed(joined, rows[known], labels, base, new)
    return Totals(unit, up, before, after, quotient, groups, method)


def _speedup(joined: Joined, rows: pd.DataFrame) -> Totals | None:
    """Decode time per token of each side's own plain over that of the side."""
    suffixes = (BASE_PLAIN, BASE, NEW_PLAIN, NEW)
    names = [f"{name}{suffix}" for suffix in suffixes for name in ("decode_ns", "decode_tokens")]
    if not set(names) <= set(rows.columns):
        return None
    known = (rows[names] > 0).all(axis=1)
    if not known.any():
        return None
    labels = unit_labels(rows, timed=True, apart=joined.apart)[known]
    totals = [summed(labels, rows.loc[known, name]) for name in names]
    groups = _groups(rows[known], labels)
    base, new = tuple(totals[:4]), tuple(totals[4:])
    return Totals("x", True, base, new, _plain_over_arm, groups)


def _plain_over_arm(
    plain_ns: Array, plain_tokens: Array, arm_ns: Array, arm_tokens: Array, axis: int = -1
) -> Any:
    return quotient(plain_ns, plain_tokens, axis) / quotient(arm_ns, arm_tokens, axis)


def _groups(rows: pd.DataFrame, labels: pd.Series[Any]) -> Array:
    """Which starts of the two servers decoded each unit, as numbers."""
    starts = rows[f"start{BASE}"] * 1_000_000 + rows[f"start{NEW}"]
    return starts.groupby(labels, sort=False).first().to_numpy(np.float64)
