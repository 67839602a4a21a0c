"""The tokens behind a record: as the engine gave them, or its text tokenised again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specbench.core.request import Stops
from specbench.core.trace import Counted, Finish, Trace
from specbench.errors import SpecbenchError

NOT_CANONICAL = "its text is another number of tokens than the engine counted"


class Tokens(Protocol):
    """What is needed of a reference's tokenizer."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        ...

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """End-of-answer ids and the given strings."""
        ...


@dataclass(frozen=True, slots=True)
class Emitted:
    """What was emitted.

    Attributes:
        ids: the output as far as it is known, [n].
        ends: ids of which one came behind it unseen; empty where nothing did.
        retokenised: whether ``ids`` come from the text.
        counted: whether their number could be held against what the engine counted.
    """

    ids: tuple[int, ...]
    ends: tuple[int, ...] = ()
    retokenised: bool = False
    counted: bool = True


def emitted(trace: Trace, tokens: Tokens) -> Emitted:
    """The tokens of a finished record.

    A text may be written with other tokens than the tokenizer would choose. Their number gives most
    of such records away; one of equal number goes unseen, and its tokens look less likely than what
    was really emitted. An end token that is not shown still is a token: leaving it out would keep
    only those positions where the output went on.

    Raises:
        SpecbenchError: the number of tokens differs, or the output ended with a token that nobody
            names.
    """
    from_text = bool(trace.text) and not trace.output_ids
    hidden = bool(trace.hidden_end)
    if not trace.output_ids and trace.finish is Finish.EOS:
        hidden = True
    ends = tokens.stops().token_ids if hidden else ()
    if hidden and not ends:
        raise SpecbenchError("it ended with a token that was not shown, and none is known to end")
    if not from_text:
        return Emitted(tuple(trace.output_ids), ends)
    ids, total = tokens.encode(trace.text), sum(trace.arrivals.tokens)
    counted = trace.counted is not Counted.ESTIMATED
    if counted and len(ids) + hidden != total:
        raise SpecbenchError(NOT_CANONICAL)
    return Emitted(tuple(ids), ends, retokenised=True, counted=counted)
