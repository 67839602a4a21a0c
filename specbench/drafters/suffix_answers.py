"""Earlier answers as one text in which the places of a token are found without a scan.

Shapes: T tokens of all answers, each with ``END`` behind it; n places.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Sequence

import numpy as np

from specbench.drafters.suffix_match import END, Ids


class Answers:
    """Remembers answers, the oldest forgotten first.

    Args:
        most: answers remembered.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._text = np.empty(0, dtype=np.int32)
        self._origin = np.empty(0, dtype=np.int32)
        self._used = 0
        self._starts: deque[int] = deque()
        self._origins: dict[Hashable, int] = {}
        self._places: dict[int, array[int]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def text(self) -> Ids:
        """int32 [T]; a view. Forgotten answers may still stand in front."""
        return self._text[: self._used]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        places = sum(len(one) * one.itemsize for one in self._places.values())
        return self._text.nbytes + self._origin.nbytes + places

    def add(self, tokens: Sequence[int], origin: Hashable) -> None:
        """Remember an answer.

        Args:
            tokens: its ids.
            origin: what it answered, see ``ends``.
        """
        start, end = self._used, self._used + len(tokens) + 1
        if end > len(self._text):
            self._text, self._origin = (
                np.concatenate([old, np.empty(end, dtype=np.int32)])
                for old in (self._text, self._origin)
            )
        self._text[start:end] = [*tokens, END]
        self._origin[start:end] = self._origins.setdefault(origin, len(self._origins))
        for place, token in enumerate(tokens, start):
            self._places.setdefault(token, array("q")).append(place)
        self._used = end
        self._starts.append(start)
        while len(self._starts) > self._most:
            self._starts.popleft()
        self._compact()

    def ends(self, token: int, origin: Hashable) -> Ids:
        """int64 [n], ascending: places of a token in answers to anything but ``origin``."""
        if token not in self._places or not self._starts:
            return np.empty(0, dtype=np.int64)
        places = np.frombuffer(self._places[token], dtype=np.int64)
        places = places[np.searchsorted(places, self._starts[0]) :]
        return places[self._origin[places] != self._origins.get(origin, END)]

    def _compact(self) -> None:
        """Drop forgotten answers once they are the larger part; amortised, a token moves once."""
        first = self._starts[0] if self._starts else self._used
        if 2 * first <= self._used:
            return
        kept = slice(first, self._used)
        self._text, self._origin = self._text[kept].copy(), self._origin[kept].copy()
        self._used -= first
        self._starts = deque(start - first for start in self._starts)
        alive = {}
        for token, places in self._places.items():
            line = np.frombuffer(places, dtype=np.int64)
            line = line[np.searchsorted(line, first) :] - first
            if len(line):
                alive[token] = array("q", line.tobytes())
        self._places = alive
