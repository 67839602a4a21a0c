"""The requests that both sides finished, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from specbench.core.manifest import ArmFactors
from specbench.results.compare.rows import COMPARED, KEY
from specbench.results.compare.sides import Side
from specbench.stats.resamples import Array

BASE, NEW = "_base", "_new"
BASE_PLAIN, NEW_PLAIN = "_base_plain", "_new_plain"
CHAIN = "chain"


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Requests of both sides, joined on what they are.

    Attributes:
        rows: columns of items.csv with ``_base`` and ``_new``, and where both runs have a plain arm
            with ``_base_plain`` and ``_new_plain``.
        base_only, new_only: requests that one side alone finished.
        other_prompt: requests whose prompts differ, which are not compared.
        apart: whether the sides are of two runs, so that their times are of two occasions.
        by_overlap: of each side, whether a draft is accepted with probability sum min(p, q).
    """

    rows: pd.DataFrame
    base_only: int
    new_only: int
    other_prompt: int
    apart: bool
    by_overlap: tuple[bool, bool]

    def side(self, suffix: str, rows: pd.DataFrame | None = None) -> pd.DataFrame:
        """The columns of one side under their own names."""
        rows = self.rows if rows is None else rows
        found = [name for name in rows.columns if name.endswith(suffix)]
        # "_base" is no end of "_base_plain".
        return rows[found].set_axis([name[: -len(suffix)] for name in found], axis=1)


def join(base: Side, new: Side) -> Joined:
    """Join two sides on suite, item, turn, temperature, repeat and concurrency."""
    rows = _partnered(_named(base.rows, COMPARED, BASE), _named(new.rows, COMPARED, NEW), "inner")
    paired = len(rows)
    same = rows[f"prompt_sha256{BASE}"] == rows[f"prompt_sha256{NEW}"]
    rows = rows[same].reset_index(drop=True)
    for side, suffix in ((base, BASE_PLAIN), (new, NEW_PLAIN)):
        if len(side.plain):
            rows = _beside(rows, side.plain, suffix)
    return Joined(
        rows=rows,
        base_only=len(base.rows) - paired,
        new_only=len(new.rows) - paired,
        other_prompt=int((~same).sum()),
        apart=base.folder != new.folder,
        by_overlap=(_by_overlap(base.arm), _by_overlap(new.arm)),
    )


def _by_overlap(arm: ArmFactors) -> bool:
    return arm.rule == "rejection" and arm.tree == CHAIN


def _beside(rows: pd.DataFrame, plain: pd.DataFrame, suffix: str) -> pd.DataFrame:
    """Plain's times of the same requests; NaN where plain did not finish them."""
    told = _named(plain, ["decode_ns", "decode_tokens", "degenerate"], suffix)
    return _partnered(rows, told, "left")


def _named(rows: pd.DataFrame, columns: Sequence[str], suffix: str) -> pd.DataFrame:
    """``KEY``, and columns under names that say whose they are."""
    return rows[[*KEY, *columns]].set_axis([*KEY, *(f"{n}{suffix}" for n in columns)], axis=1)


def _partnered(
    left: pd.DataFrame, right: pd.DataFrame, how: Literal["inner", "left"]
) -> pd.DataFrame:
    """Both tables joined on ``KEY``, which names a row once in each."""
    left, right = (rows.reset_index(drop=True) for rows in (left, right))
    # items.csv is sorted: of runs that finished the same, rows are partners already.
    if left[KEY].equals(right[KEY]):
        return pd.concat([left, right.drop(columns=KEY)], axis=1)
    return left.merge(right, on=KEY, how=how)


def unit_labels(rows: pd.DataFrame, *, timed: bool, apart: bool) -> pd.Series[Any]:
    """The independent unit of each request.

    The prompt, whose turns and repeats are correlated. For times of one run the interleaving unit
    where that holds several prompts, as a block does.
    """
    items = rows["suite"] + "/" + rows["item"]
    if not timed or apart:
        return items
    units = rows[f"unit{NEW}"]
    wide = items.groupby(units).transform("nunique") > 1
    return units.where(wide & (units != ""), items)


def summed(labels: pd.Series[Any], values: pd.Series[Any]) -> Array:
    """Sum of values, none of them unknown, by unit in order of first appearance."""
    places, units = pd.factorize(labels)
    return np.bincount(places, values.to_numpy(), len(units)).astype(np.float64)
