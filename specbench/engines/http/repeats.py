"""Streams whose events repeat everything before them, cut to what is new.

SGLang does so unless it was started with incremental streaming output, and does not say which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from specbench.engines.http.piece import Piece

Events = Sequence[tuple[int, Piece]]


def without_repeats(events: Events) -> list[tuple[int, Piece]]:
    """The same events with text, reasoning and ids that each of them added.

    A stream that repeats nothing is left as it is. Where the last text is shorter than the one
    before (a stop string was cut off), what it lacks is taken from the events that brought it.
    """
    pieces = [piece for _, piece in events]
    if not _repeats(pieces):
        return list(events)
    text = _final([piece.text for piece in pieces])
    reasoning = _final([piece.reasoning for piece in pieces])
    known_text = known_reasoning = known_ids = 0
    news = []
    for t_ns, piece in events:
        new = replace(
            piece,
            text=text[known_text : len(piece.text)],
            reasoning=reasoning[known_reasoning : len(piece.reasoning)],
        )
        if piece.token_ids is not None:
            new = replace(new, token_ids=piece.token_ids[known_ids:])
            known_ids = max(known_ids, len(piece.token_ids))
        known_text = max(known_text, len(piece.text))
        known_reasoning = max(known_reasoning, len(piece.reasoning))
        news.append((t_ns, new))
    return news


def _repeats(pieces: Sequence[Piece]) -> bool:
    """Whether later events hold what earlier ones held. Ids decide; text may repeat by itself."""
    shown = [piece.token_ids for piece in pieces if piece.token_ids]
    if len(shown) > 1:
        grows = all(late[: len(early)] == early for early, late in pairwise(shown))
        return grows and not _adds_up(pieces)
    texts = [piece.text for piece in pieces if piece.text]
    # Two words may well be the same; three that each contain the one before are no accident.
    return len(texts) > 2 and all(
        late != early and late.startswith(early) for early, late in pairwise(texts[:-1])
    )


def _adds_up(pieces: Sequence[Piece]) -> bool:
    """Whether the ids of all events together are as many as the server counts."""
    counts = [piece.completion_tokens for piece in pieces if piece.completion_tokens is not None]
    return bool(counts) and max(counts) == sum(len(piece.token_ids or ()) for piece in pieces)


def _final(texts: Sequence[str]) -> str:
    """The last text that was not empty."""
    return next((text for text in reversed(texts) if text), "")
