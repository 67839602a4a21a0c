"""What usually followed the last tokens of a text, and how often: the counts of a suffix tree.

Source: Oliaro et al. 2411.04975 (SuffixDecoding), section 4, as in Arctic Inference, which vLLM
runs. A suffix tree of depth D holds how often every string of at most D tokens occurs. Here the
same counts are read off the text: places of the last token are narrowed to those of longer and
longer matches, then followed. A tree of Python objects would visit D nodes per new token and hold
about as many; here a new token is one more entry of an array.

Shapes: T tokens of a text, n places in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer]

END = -1
"""Stands behind every text of several that are stored as one; it matches and continues nothing."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a match may be continued.

    Attributes:
        depth: matched and drafted tokens together, at most: the depth of the tree.
        factor: drafted tokens per matched token, at most.
        least: smallest share of the match's occurrences that have the drafted path behind them.
    """

    depth: int
    factor: float
    least: float

    def room(self, matched: int, most: int) -> int:
        """Tokens that may follow a match of ``matched`` tokens, ``most`` at most."""
        # A product that rounding left a hair below a whole number counts as that number.
        return min(most, int(self.factor * matched + 1e-6), self.depth - matched)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A path to draft.

    Attributes:
        tokens: the path.
        score: right tokens to expect: the sum over the path of the share of the match's occurrences
            that have it so far behind them. An occurrence at the very end of a text counts too,
            although nothing follows it.
        matched: length of the match.
    """

    tokens: tuple[int, ...] = ()
    score: Fraction = Fraction(0)
    matched: int = 0


def best_continuation(
    text: Ids, ends: Ids, pattern: Ids, most: int, bounds: Bounds
) -> Continuation:
    """The path with the highest score over all lengths of the match; of equal ones the longest.

    Args:
        text: [T] one text, or several with ``END`` behind each.
        ends: [n] ascending places of the pattern's last token.
        pattern: what is to be continued, at least one token.
        most: longest path.
        bounds: see there.
    """
    best = Continuation()
    # No path can score more than its room. From the most promising match on, the first that
    # cannot be better ends the search.
    for room, matched, places in _matches(text, ends, pattern, most, bounds):
        if room <= 0 or (room, matched) <= (best.score, best.matched):
            break
        tokens, seen = _path(text, places, room, bounds.least)
        score = Fraction(seen, len(places))
        if tokens and (score, matched) > (best.score, best.matched):
            best = Continuation(tuple(tokens), score, matched)
    return best


def _matches(
    text: Ids, ends: Ids, pattern: Ids, most: int, bounds: Bounds
) -> list[tuple[int, int, Ids]]:
    """(room, length, where it ends) of every match, the most room first.

    Of matches that end in the same places the one with the most room stands for all: the others
    would continue as it does.
    """
    found: dict[int, tuple[int, int, Ids]] = {}
    for length in range(1, min(bounds.depth - 1, len(pattern)) + 1):
        if length > 1:
            first = ends - (length - 1)
            ends = ends[(first >= 0) & (text[first] == pattern[-length])]
        if not len(ends):
            break
        room = bounds.room(length, most)
        # A longer match ends where a shorter one does: as many places are the same places.
        if len(ends) not in found or found[len(ends)][0] <= room:
            found[len(ends)] = (room, length, ends)
    return sorted(found.values(), key=lambda match: match[:2], reverse=True)


def _path(text: Ids, ends: Ids, room: int, least: float) -> tuple[list[int], int]:
    """The most frequent tokens behind a match, one after the other.

    Also the sum over them of the occurrences that have the path so far behind them.
    """
    total, seen = len(ends), 0
    tokens: list[int] = []
    at = _going_on(text, ends + 1)
    while len(at) > 1 and len(tokens) < room:
        following = text[at]
        token = _commonest(following)
        at = at[following == token]
        if len(at) / total < least:
            return tokens, seen
        tokens.append(token)
        seen += len(at)
        at = _going_on(text, at + 1)
    if len(at) == 1 and 1 / total >= least:
        # A single occurrence is left: its text is the path.
        rest = text[at[0] : at[0] + room - len(tokens)].tolist()
        rest = rest[: rest.index(END)] if END in rest else rest
        tokens += rest
        seen += len(rest)
    return tokens, seen


def _going_on(text: Ids, at: Ids) -> Ids:
    """The places, ascending, that hold a token."""
    if len(at) and at[-1] == len(text):
        at = at[:-1]
    going = text[at] != END
    return at if going.all() else at[going]


def _commonest(tokens: Ids) -> int:
    """The most frequent of some tokens; of equally frequent ones, the one that comes last."""
    last = tokens[-1]
    if (tokens == last).all():
        return int(last)
    counts = np.bincount(tokens)[tokens]
    return int(tokens[np.flatnonzero(counts == counts.max())[-1]])
