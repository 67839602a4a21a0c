"""How many tokens each event of an answer brought, from the best source the server offers.

Best first (case D5): ids of the tokens; a count in every event; one count at the end, spread over
the events; the text, tokenised as a whole and marked as estimated. One counter for every arm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from specbench.core.trace import Counted, Finish
from specbench.engines.http.piece import Piece

TokenStarts = Callable[[str], Sequence[int]]
"""Where the tokens of a text begin, in characters, without special tokens; never decreasing."""


@dataclass(slots=True)
class Count:
    """What was counted.

    Attributes:
        tokens: per event; an event may bring none.
        how: the source.
        ids: of all tokens but a hidden end; empty where the server does not show all others.
        hidden_end: an end token was counted whose id was not shown.
    """

    tokens: list[int]
    how: Counted
    ids: list[int] = field(default_factory=list)
    hidden_end: bool = False

    @property
    def total(self) -> int:
        """Output tokens."""
        return sum(self.tokens)


def count_tokens(pieces: Sequence[Piece], whole: bool, starts: TokenStarts | None) -> Count:
    """Count the tokens of an answer.

    Args:
        whole: the answer came in one piece: a count in it is no count per event.
        starts: of the model's tokenizer; None where there is none.
    """
    totals = [piece.completion_tokens for piece in pieces if piece.completion_tokens is not None]
    total = max(totals, default=None)
    found = _by_ids(pieces, total)
    if found is not None:
        return found
    bearing = [index for index, piece in enumerate(pieces) if piece.text or piece.reasoning]
    in_all = all(pieces[index].completion_tokens is not None for index in bearing)
    if totals and in_all and (bearing or len(totals) > 1):
        return Count(_rises(pieces), Counted.USAGE if whole else Counted.CHUNK_USAGE)
    if not bearing:
        tokens = [0] * len(pieces)
        if total:
            tokens[_finish_at(pieces)] = total
        return Count(tokens, Counted.ESTIMATED if total is None else Counted.USAGE)
    shares = _shares(pieces, bearing, starts)
    if total is None:
        return Count(shares, Counted.ESTIMATED)
    return Count(_spread(total, shares, pieces), Counted.USAGE)


def _by_ids(pieces: Sequence[Piece], total: int | None) -> Count | None:
    """By ids; None where an event with text has none, or where ids are missing."""
    shown = [piece.token_ids for piece in pieces]
    if not any(shown):
        return None
    if any(ids is None and (p.text or p.reasoning) for ids, p in zip(shown, pieces, strict=True)):
        return None
    tokens = [len(ids or ()) for ids in shown]
    ids = [number for part in shown for number in part or ()]
    missing = 0 if total is None else max(0, total - len(ids))
    if missing == 1 and _ended_by_itself(pieces):
        tokens[_finish_at(pieces)] += 1
        return Count(tokens, Counted.IDS, ids, hidden_end=True)
    return None if missing else Count(tokens, Counted.IDS, ids)


def _rises(pieces: Sequence[Piece]) -> list[int]:
    """How much each event raised the count. Nothing comes behind the finish but its counting."""
    tokens, known, finish_at = [0] * len(pieces), 0, _finish_at(pieces)
    for index, piece in enumerate(pieces):
        now = known if piece.completion_tokens is None else max(known, piece.completion_tokens)
        tokens[min(index, finish_at)] += now - known
        known = now
    return tokens


def _shares(
    pieces: Sequence[Piece], bearing: Sequence[int], starts: TokenStarts | None
) -> list[int]:
    """Tokens that begin in the text of each event; without a tokenizer one per event with text."""
    shares = [0] * len(pieces)
    if starts is None:
        for index in bearing:
            shares[index] = 1
        return shares
    begins = starts("".join(pieces[index].reasoning + pieces[index].text for index in bearing))
    end = known = 0
    for index in bearing:
        end += len(pieces[index].reasoning) + len(pieces[index].text)
        before, known = known, bisect_left(begins, end)
        shares[index] = known - before
    return shares


def _spread(total: int, shares: list[int], pieces: Sequence[Piece]) -> list[int]:
    """A count at the end, over the events that brought text.

    Where the text has one token less and the output ended by itself, the missing one is the end
    token, which came with the finish. Where counts disagree otherwise every event with text
    brought at least one token, and the rest is in proportion to the text's own tokens.
    """
    ones = [1 if piece.text or piece.reasoning else 0 for piece in pieces]
    for guess in (shares, ones):
        if sum(guess) == total:
            return guess
        if sum(guess) + 1 == total and _ended_by_itself(pieces):
            guess[_finish_at(pieces)] += 1
            return guess
    if total < sum(ones):
        # A text in which the tokenizer finds no token says nothing about its events.
        return _proportional(total, shares if any(shares) else ones)
    beyond = [max(0, share - 1) for share in shares]
    rest = _proportional(total - sum(ones), beyond if any(beyond) else ones)
    return [one + more for one, more in zip(ones, rest, strict=True)]


def _proportional(total: int, weights: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to weights that add up to a total (largest remainders).

    Args:
        weights: at least one above 0.
    """
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for index in order[: total - sum(parts)]:
        parts[index] += 1
    return parts


def _finish_at(pieces: Sequence[Piece]) -> int:
    """The event that told the finish; the last one where none did."""
    told = [index for index, piece in enumerate(pieces) if piece.finish is not None]
    return told[0] if told else len(pieces) - 1


def _ended_by_itself(pieces: Sequence[Piece]) -> bool:
    return pieces[_finish_at(pieces)].finish is Finish.EOS
