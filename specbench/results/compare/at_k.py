"""Drafts that were measured at several K, held against each other at equal K or each at its best.

A draft is what arms of one run have in common that differ in K alone. The best K is the one with
the least decode time per token, and so the largest speed-up. Whoever picks the best of several and
reads its figure off the same prompts reads too much: the largest of several noisy figures is large
by luck as well. So half of the prompts choose, and the other half are compared. Which half a prompt
is in follows from the hash of its name: it is the same in every comparison of these prompts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256

import pandas as pd

from specbench.core.manifest import ArmFactors
from specbench.errors import UsageError
from specbench.results.compare.rows import KEY
from specbench.results.compare.sides import RunRows, Side

EQUAL_K, BEST_K = "equal-k", "best-k"


@dataclass(frozen=True, slots=True)
class Draft:
    """Arms of a run that differ in K alone.

    Attributes:
        arms: K -> name of the arm, smallest K first.
        factors: what they have in common.
    """

    arms: Mapping[int, str]
    factors: ArmFactors

    @property
    def name(self) -> str:
        """The names of all its arms."""
        return ", ".join(self.arms.values())


Pair = tuple[Side, Side, list[str]]
"""Two sides, and what to know of the choice of their K."""


def pairs_at(base: RunRows, new: RunRows, at: str) -> list[Pair]:
    """The sides that are compared.

    Args:
        at: ``equal-k``: one pair for each K that both drafts have. ``best-k``: one pair for each
            temperature and load, of the prompts that did not choose.

    Raises:
        UsageError: it does not follow which drafts are meant, or they have no such K.
    """
    return [pair for drafts in _drafts(base, new) for pair in _AT[at](base, new, *drafts)]


def _drafts(base: RunRows, new: RunRows) -> list[tuple[Draft, Draft]]:
    mine, others = _asked(base), _asked(new)
    same_run = base.folder == new.folder
    every = [(one, other) for one in mine for other in others]
    found = [(one, other) for one, other in every if not same_run or one != other]
    if same_run and not (base.asked or new.asked):
        found = []
    if not same_run and not (base.asked and new.asked):
        alike = [(one, other) for one, other in every if one.factors == other.factors]
        found = alike or (every if len(every) == 1 else [])
    if not found:
        raise UsageError(
            f"{base.manifest.run} has the drafts {_listed(mine)}, {new.manifest.run} has "
            f"{_listed(others)}: which against which?",
            "name each by one of its arms: RUN:ARM RUN:ARM",
        )
    return found


def _asked(run: RunRows) -> list[Draft]:
    """The draft behind the arm that was asked for, or all of them."""
    found: dict[str, dict[int, str]] = {}
    commons: dict[str, ArmFactors] = {}
    for name in run.speculative():
        arm = run.manifest.arm(name)
        common = replace(arm, name="", k=0)
        # Two arms of one K and draft are two drafts: nothing says which is meant.
        place = next(
            (p for p, one in commons.items() if one == common and arm.k not in found[p]), name
        )
        commons.setdefault(place, common)
        found.setdefault(place, {})[arm.k] = name
    drafts = [Draft(dict(sorted(arms.items())), commons[place]) for place, arms in found.items()]
    return [one for one in drafts if not run.asked or run.asked in one.arms.values()]


def _listed(drafts: Sequence[Draft]) -> str:
    return "; ".join(one.name for one in drafts) or "none"


def _equal(base: RunRows, new: RunRows, one: Draft, other: Draft) -> Iterator[Pair]:
    shared = [k for k in one.arms if k in other.arms]
    if not shared:
        raise UsageError(
            f"{one.name} and {other.name} have no K in common: {_ks(one)} and {_ks(other)}",
            f"compare them at their best: --at {BEST_K}",
        )
    for k in shared:
        yield base.side(one.arms[k]), new.side(other.arms[k]), [f"both at K = {k}"]


def _best(base: RunRows, new: RunRows, one: Draft, other: Draft) -> Iterator[Pair]:
    if len(one.arms) == len(other.arms) == 1:
        raise UsageError(
            f"{one.name} and {other.name} were measured at one K each: there is none to choose",
            "leave --at out, or add arms with other k",
        )
    mine, others = _sides(base, one), _sides(new, other)
    rows = pd.concat([side.rows for side in (*mine.values(), *others.values())])
    for _, cell in rows.groupby(["temperature", "concurrency"]):
        temperature, load = cell.iloc[0][["temperature", "concurrency"]]
        choosing = _choosing(cell)
        place = (float(temperature), int(load))
        chosen, notes = [], []
        for word, sides in (("base", mine), ("new", others)):
            cells = {k: _within(side, place) for k, side in sides.items()}
            best = _fastest(cells, choosing)
            chosen.append(_without(cells[best], choosing))
            asked = ", ".join(map(str, sides))
            notes.append(f"{word}: best K = {best} of {asked}")
        compared = len(cell[["suite", "item"]].drop_duplicates()) - len(choosing)
        how = (
            f"temperature {place[0]:g}, load {place[1]}: chosen by decode time per token on "
            f"{len(choosing)} prompts, compared on the {compared} others"
        )
        yield chosen[0], chosen[1], [*notes, how]


def _sides(run: RunRows, draft: Draft) -> dict[int, Side]:
    return {k: run.side(name) for k, name in draft.arms.items()}


def _within(side: Side, place: tuple[float, int]) -> Side:
    return replace(side, rows=_cell(side.rows, place), plain=_cell(side.plain, place))


def _cell(rows: pd.DataFrame, place: tuple[float, int]) -> pd.DataFrame:
    temperature, load = place
    return rows[(rows["temperature"] == temperature) & (rows["concurrency"] == load)]


def _choosing(rows: pd.DataFrame) -> frozenset[str]:
    """Every other prompt of each suite, in the order of the hashes of their names."""
    found: set[str] = set()
    for _, part in rows.groupby("suite"):
        names = sorted(set(_names(part)), key=lambda name: sha256(name.encode()).digest())
        found |= set(names[::2])
    return frozenset(found)


def _names(rows: pd.DataFrame) -> list[str]:
    return (rows["suite"] + "/" + rows["item"]).tolist()


def _without(side: Side, choosing: frozenset[str]) -> Side:
    return replace(side, rows=side.rows[[name not in choosing for name in _names(side.rows)]])


def _fastest(sides: Mapping[int, Side], choosing: frozenset[str]) -> int:
    """The K with the least decode time per token, over requests that all of them finished."""
    if len(sides) == 1:
        return next(iter(sides))
    parts = [
        side.rows.loc[
            [name in choosing for name in _names(side.rows)], [*KEY, "decode_ns", "decode_tokens"]
        ]
        .query("decode_ns > 0 and decode_tokens > 0")
        .rename(columns={"decode_ns": f"ns_{k}", "decode_tokens": f"tokens_{k}"})
        for k, side in sides.items()
    ]
    both = reduce(lambda one, other: one.merge(other, on=KEY), parts)
    if both.empty:
        names = ", ".join(side.arm.name for side in sides.values())
        raise UsageError(
            f"{names}: no request with a decode time on all of them, by which to choose K",
            f"compare them at equal K: --at {EQUAL_K}",
        )
    return min(sides, key=lambda k: both[f"ns_{k}"].sum() / both[f"tokens_{k}"].sum())


def _ks(draft: Draft) -> str:
    return ", ".join(map(str, draft.arms))


_AT: dict[str, Callable[[RunRows, RunRows, Draft, Draft], Iterator[Pair]]] = {
    EQUAL_K: _equal,
    BEST_K: _best,
}
AT = tuple(_AT)
"""Ways to choose K."""
