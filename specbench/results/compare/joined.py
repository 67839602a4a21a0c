"""The requests that both sides finished, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.core.manifest import ArmFactors
from specbench.results.compare.measures import Values
from specbench.results.compare.rows import KEY
from specbench.results.compare.sides import Side

BASE, NEW = "base", "new"
BASE_PLAIN, NEW_PLAIN = "base's plain", "new's plain"
CHAIN = "chain"
Places = NDArray[np.intp]
"""Which of the joined requests, by their numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Requests of both sides, joined on what they are.

    Attributes:
        tables: ``BASE`` and ``NEW`` -> columns of items.csv, one row per joined request in one
            order; where a run has a plain arm also ``BASE_PLAIN`` and ``NEW_PLAIN``, with NaN where
            plain did not finish a request.
        prompts: number of each request's prompt, whose turns and repeats are requests of their own.
        base_only, new_only: requests that one side alone finished.
        other_prompt: requests whose prompts differ, which are not compared.
        apart: whether the sides are of two runs, so that their times are of two occasions.
        by_overlap: of each side, whether a draft is accepted with probability sum min(p, q).
    """

    tables: Mapping[str, pd.DataFrame]
    prompts: NDArray[np.intp]
    base_only: int
    new_only: int
    other_prompt: int
    apart: bool
    by_overlap: tuple[bool, bool]
    _arrays: dict[tuple[str, str], NDArray[Any]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        """Requests that are compared."""
        return len(self.prompts)

    def values(self, side: str, name: str) -> NDArray[Any]:
        """A column of a side, one entry per request."""
        if (side, name) not in self._arrays:
            self._arrays[side, name] = self.tables[side][name].to_numpy()
        return self._arrays[side, name]

    def of(self, side: str, places: Places) -> Values:
        """The columns of a side, by their names, for some of the requests."""
        return lambda name: self.values(side, name)[places]

    @property
    def every(self) -> Places:
        """All requests."""
        return np.arange(len(self))


def join(base: Side, new: Side) -> Joined:
    """Join two sides on suite, item, turn, temperature, repeat and concurrency."""
    left, right = _partners(base.rows, new.rows, "inner")
    paired = len(left)
    prompts = (side.rows["prompt_sha256"].to_numpy() for side in (base, new))
    same = np.equal(*(found[at] for found, at in zip(prompts, (left, right), strict=True)))
    tables = {BASE: _rows(base.rows, left[same]), NEW: _rows(new.rows, right[same])}
    for side, name in ((base, BASE_PLAIN), (new, NEW_PLAIN)):
        if len(side.plain):
            _, beside = _partners(tables[BASE], side.plain, "left")
            tables[name] = _rows(side.plain, beside)
    names, _ = pd.factorize(tables[BASE]["suite"] + "/" + tables[BASE]["item"])
    return Joined(
        tables=tables,
        prompts=names,
        base_only=len(base.rows) - paired,
        new_only=len(new.rows) - paired,
        other_prompt=int((~same).sum()),
        apart=base.folder != new.folder,
        by_overlap=(_by_overlap(base.arm), _by_overlap(new.arm)),
    )


def _by_overlap(arm: ArmFactors) -> bool:
    return arm.rule == "rejection" and arm.tree == CHAIN


def _partners(
    left: pd.DataFrame, right: pd.DataFrame, how: Literal["inner", "left"]
) -> tuple[Places, Places]:
    """Numbers of the rows of two tables that are joined on ``KEY``, which is once in each.

    -1 on the right where ``how`` is "left" and a row has no partner.
    """
    # items.csv is sorted: of runs that finished the same, rows are partners already.
    if len(left) == len(right) and all(
        np.array_equal(left[name].to_numpy(), right[name].to_numpy()) for name in KEY
    ):
        every = np.arange(len(left))
        return every, every
    numbered = [rows[KEY].assign(number=np.arange(len(rows))) for rows in (left, right)]
    found = numbered[0].merge(numbered[1], on=KEY, how=how)
    one, other = (found[f"number_{end}"].fillna(-1).to_numpy(np.intp) for end in ("x", "y"))
    return one, other


def _rows(rows: pd.DataFrame, numbers: Places) -> pd.DataFrame:
    """Rows by their numbers; of -1 nothing is known."""
    if np.array_equal(numbers, np.arange(len(rows))):
        return rows
    return rows.reset_index(drop=True).reindex(numbers)
