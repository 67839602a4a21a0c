"""How far a drafter can follow a budget, and what its records say where it cannot."""

from __future__ import annotations

from collections.abc import Container, Sequence

from specbench.core.trace import ShortDraft
from specbench.decoding.sequence import Sequence as DecodedSequence


def within_context(
    rows: Sequence[DecodedSequence], budget: Sequence[int], context: int, known: Container[int]
) -> list[int]:
    """Longest path per request that a draft of ``context`` positions can draft.

    Args:
        rows: the batch.
        budget: longest path asked for per request.
        context: positions that the draft knows; behind them a request decodes plainly.
        known: slabs of the requests that the draft has kept up with.
    """
    return [
        max(0, min(asked, context - row.length)) if row.slab in known else 0
        for row, asked in zip(rows, budget, strict=True)
    ]


def short_of(reach: Sequence[int], budget: Sequence[int], why: ShortDraft) -> list[ShortDraft]:
    """``why`` for requests whose reach is below their budget."""
    return [
        why if n < max(0, asked) else ShortDraft.NONE
        for n, asked in zip(reach, budget, strict=True)
    ]


def looked_up(found: Sequence[int], budget: Sequence[int]) -> list[ShortDraft]:
    """Why drafts are short that are found in texts, not made.

    Args:
        found: tokens of each.
        budget: tokens asked for.
    """
    return [_looked_up(n, asked) for n, asked in zip(found, budget, strict=True)]


def _looked_up(found: int, asked: int) -> ShortDraft:
    if asked <= 0:
        return ShortDraft.LIMIT
    if found == 0:
        return ShortDraft.NO_MATCH
    return ShortDraft.NONE if found == asked else ShortDraft.DRAFTER_STOPPED
