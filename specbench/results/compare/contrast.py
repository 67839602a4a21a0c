"""One measure of two sides on the same requests: ratio, interval, test, and what was detectable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from specbench.stats.resamples import Array
from specbench.stats.paired import permutation_statistic
from specbench.stats.power import ALPHA, POWER
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
    """Columns of both sides, one entry per unit, and the statistic of a side's columns.

    Attributes:
        groups: which starts of the two servers decoded each unit.
        method: words for the method's name.
    """

    base: Columns
    new: Columns
    statistic: Callable[..., Any]
    groups: Array
    method: str = ""

    @property
    def equal(self) -> bool:
        """Whether both sides are the same in every unit."""
        return all(map(np.array_equal, self.base, self.new))

    def log_ratio(self, *both: Array, axis: int = -1) -> Any:
        """Of ``(*new, *base)``, along the axis of units."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(self.ratio(*both, axis=axis))

    def ratio(self, *both: Array, axis: int = -1) -> Any:
        """New / base of ``(*new, *base)``, along the axis of units."""
        count = len(self.base)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = self.statistic(*both[:count], axis=axis)
            return new / self.statistic(*both[count:], axis=axis)


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
    unit, up, missing = facts(name, known)
    made = totals_of(name, joined, rows, known)
    if made is None:
        absent = nothing(missing, unit)
        ratio, power = nothing(missing, "x"), nothing(missing, "1")
        return Contrast(name, absent, absent, ratio, None, power, up)
    units = len(made.groups)
    base, new = (
        Quantity(float(made.statistic(*columns)), unit, n=units) for columns in (made.base, made.new)
    )
    ratio, p, power = _judged(made, seed, level)
    return Contrast(name, base, new, ratio, p, power, up)


def totals_of(
    name: str, joined: Joined, rows: pd.DataFrame, known: Mapping[str, Measure] = MEASURES
) -> Totals | None:
    """A measure's columns on both sides; None where there is nothing to compare."""
    return _speedup(joined, rows) if name == SPEEDUP else _measured(known[name], joined, rows)


def facts(name: str, known: Mapping[str, Measure] = MEASURES) -> tuple[str, bool, str]:
    """Unit of a measure, whether more is better, and why there may be nothing to compare."""
    if name == SPEEDUP:
        return "x", True, "no plain arm decoded these requests beside both"
    measure = known[name]
    return measure.unit, measure.up, measure.missing


def _judged(made: Totals, seed: int, level: float) -> tuple[Quantity, float | None, Quantity]:
    units = len(made.groups)
    if made.equal:
        method = f"no interval: equal on all {units} units"
        return Quantity(1.0, "x", n=units, method=method), 1.0, nothing(method, "1")
    columns = (*made.new, *made.base)
    found = grouped_interval(columns, made.ratio, seed, "x", level, groups=made.groups)
    power = detectable(
        columns, made.log_ratio, seed=seed, unit="1", alpha=ALPHA, power=POWER, groups=made.groups
    )
    if power.known:
        power = replace(power, value=float(np.expm1(power.number())))
    p = permutation_statistic(made.new, made.base, made.statistic, seed=seed)
    return replace(found, method=f"{found.method}{made.method}"), p, power


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
    if measure.name != "accept_length":
        return Totals(base, new, quotient, groups)
    before, after, method = narrowed(joined, rows[known], labels, base, new)
    return Totals(before, after, quotient, groups, method)


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
    return Totals(tuple(totals[:4]), tuple(totals[4:]), _plain_over_arm, groups)


def _plain_over_arm(
    plain_ns: Array, plain_tokens: Array, arm_ns: Array, arm_tokens: Array, axis: int = -1
) -> Any:
    return quotient(plain_ns, plain_tokens, axis) / quotient(arm_ns, arm_tokens, axis)


def _groups(rows: pd.DataFrame, labels: pd.Series[Any]) -> Array:
    """Which starts of the two servers decoded each unit, as numbers."""
    starts = rows[f"start{BASE}"] * 1_000_000 + rows[f"start{NEW}"]
    return starts.groupby(labels, sort=False).first().to_numpy(np.float64)
