"""Which requests are compared together: a cliff in one group is not averaged away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from specbench.results.compare.joined import BASE_PLAIN, NEW, NEW_PLAIN

ALL, SOUND = "all", "without loops"
BUCKETS = (1024, 4096, 16384, 65536)
"""Ends of the buckets of context, in tokens of the prompt."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the joined requests.

    Attributes:
        temperature, concurrency: of all of them.
        name: what else they have in common; ``all`` for nothing.
    """

    temperature: float
    concurrency: int
    name: str


def _suites(rows: pd.DataFrame) -> pd.Series[Any]:
    return rows["suite"]


def _categories(rows: pd.DataFrame) -> pd.Series[Any]:
    # A category's name alone may stand in several suites.
    return rows["suite"] + "/" + rows[f"category{NEW}"]


def _contexts(rows: pd.DataFrame) -> pd.Series[Any]:
    tokens = rows[f"prompt_tokens{NEW}"].to_numpy()
    names = [*(f"up to {end} tokens" for end in BUCKETS), f"over {BUCKETS[-1]} tokens"]
    return pd.Series([names[i] for i in np.searchsorted(BUCKETS, tokens)], index=rows.index)


def _nothing(rows: pd.DataFrame) -> pd.Series[Any]:
    return pd.Series(ALL, index=rows.index)


SPLITS: dict[str, Callable[[pd.DataFrame], pd.Series[Any]]] = {
    "temperature": _nothing,
    "suite": _suites,
    "category": _categories,
    "context": _contexts,
}
"""Name of ``--by`` -> label of each request; temperatures and loads are never pooled."""


def groups(rows: pd.DataFrame, by: str) -> Iterator[tuple[Group, pd.DataFrame]]:
    """The groups of a split, all requests of a temperature and load first.

    Args:
        rows: joined requests.
        by: of ``SPLITS``.
    """
    labels = SPLITS[by](rows)
    for _, part in rows.groupby(["temperature", "concurrency"]):
        temperature, concurrency = part.iloc[0][["temperature", "concurrency"]]
        place = float(temperature), int(concurrency)
        yield Group(*place, ALL), part
        sound = _sound(part)
        if 0 < len(sound) < len(part):
            yield Group(*place, SOUND), sound
        for name, found in part.groupby(labels.loc[part.index]):
            if len(found) < len(part):
                yield Group(*place, str(name)), found


def _sound(rows: pd.DataFrame) -> pd.DataFrame:
    """Requests on which no plain arm repeats itself; loops flatter every drafter."""
    flags = [f"degenerate{suffix}" for suffix in (BASE_PLAIN, NEW_PLAIN)]
    looping = [rows[name] == 1 for name in flags if name in rows.columns]
    return rows[~pd.concat(looping, axis=1).any(axis=1)] if looping else rows
