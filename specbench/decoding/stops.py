"""Where an output ends: EOS, stop strings and the length cap, token by token, earliest wins."""

from __future__ import annotations

from typing import Protocol

from specbench.core.request import Limits, Stops
from specbench.core.trace import Finish


class Detokenizer(Protocol):
    """Incremental text of a growing output."""

    def push(self, token_id: int) -> str:
        """Text that became complete with this token; an unfinished character is held back."""
        ...


def token_cap(limits: Limits, prompt_tokens: int) -> int:
    """Output tokens that fit both the length limit and the context; 0 or less leaves no room."""
    if limits.context is None:
        return limits.max_new_tokens
    return min(limits.max_new_tokens, limits.context - prompt_tokens)


class StopChecker:
    """Decides after each token whether the output ends there.

    The token that completes a stop is kept and counted; text ends before a stop string. At the
    same token a stop wins over the length cap.

    Args:
        stops: ids and strings that end the output.
        limits: length limits.
        prompt_tokens: length of the prompt, for the context limit.
        detokenizer: needed when ``stops.strings`` is not empty.
    """

    def __init__(
        self, stops: Stops, limits: Limits, prompt_tokens: int, detokenizer: Detokenizer | None
    ) -> None:
        self._ids = frozenset(stops.token_ids)
        self._strings = stops.strings
        self._detokenizer = detokenizer
        self._minimum = limits.min_new_tokens
        self.cap = token_cap(limits, prompt_tokens)
        self._count = 0
        self._text = ""
        self.text_end: int | None = None
        """Length of the visible text where a stop string cut it, None otherwise."""
        if stops.strings and detokenizer is None:
            raise ValueError("stop strings need a detokenizer")

    def push(self, token_id: int) -> Finish | None:
        """Count one token; the finish reason if the output ends with it."""
        self._count += 1
        if token_id in self._ids and self._count > self._minimum:
            return Finish.EOS
        if self._strings and self._detokenizer is not None and self._matches(token_id):
            return Finish.STOP
        return Finish.LENGTH if self._count >= self.cap else None

    def _matches(self, token_id: int) -> bool:
        assert self._detokenizer is not None
        piece = self._detokenizer.push(token_id)
        # A match ends in the new piece, so it cannot begin earlier than this.
        start = max(0, len(self._text) - max(map(len, self._strings)) + 1)
        self._text += piece
        found = [at for s in self._strings if (at := self._text.find(s, start)) >= 0]
        if found:
            self.text_end = min(found)
        return bool(found)
