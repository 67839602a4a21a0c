"""Which requests are compared together: a cliff in one group is not averaged away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.results.compare.joined import BASE_PLAIN, NEW, NEW_PLAIN, Joined, Places

ALL, SOUND = "all", "without loops"
Labels = NDArray[Any]
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


def _suites(joined: Joined) -> Labels:
    return joined.values(NEW, "suite")


def _categories(joined: Joined) -> Labels:
    # A category's name alone may stand in several suites.
    rows = joined.tables[NEW]
    return (rows["suite"] + "/" + rows["category"]).to_numpy()


def _contexts(joined: Joined) -> Labels:
    names = [*(f"up to {end} tokens" for end in BUCKETS), f"over {BUCKETS[-1]} tokens"]
    return np.array(names)[np.searchsorted(BUCKETS, joined.values(NEW, "prompt_tokens"))]


def _nothing(joined: Joined) -> Labels:
    return np.full(len(joined), ALL)


SPLITS: dict[str, Callable[[Joined], Labels]] = {
    "temperature": _nothing,
    "suite": _suites,
    "category": _categories,
    "context": _contexts,
}
"""Name of ``--by`` -> label of each request; temperatures and loads are never pooled."""


def groups(joined: Joined, by: str) -> Iterator[tuple[Group, Places]]:
    """The groups of a split with their requests, all of a temperature and load first.

    Args:
        by: of ``SPLITS``.
    """
    labels, sound = SPLITS[by](joined), _sound(joined)
    loads = np.stack([joined.values(NEW, name) for name in ("temperature", "concurrency")], axis=1)
    for temperature, concurrency in np.unique(loads, axis=0):
        part = np.flatnonzero((loads == (temperature, concurrency)).all(axis=1))
        place = float(temperature), int(concurrency)
        yield Group(*place, ALL), part
        if 0 < sound[part].sum() < len(part):
            yield Group(*place, SOUND), part[sound[part]]
        for name in sorted(set(labels[part])):
            found = part[labels[part] == name]
            if len(found) < len(part):
                yield Group(*place, str(name)), found


def _sound(joined: Joined) -> NDArray[np.bool_]:
    """Requests on which no plain arm repeats itself; loops flatter every drafter."""
    sound = np.full(len(joined), True)
    for plain in (BASE_PLAIN, NEW_PLAIN):
        if plain in joined.tables:
            sound &= joined.values(plain, "degenerate") != 1
    return sound
