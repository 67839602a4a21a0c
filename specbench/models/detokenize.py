"""Text of an output: whole, and incrementally over bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def full_text(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of complete output ids without special tokens; nothing is tidied up."""
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


class IncrementalText:
    """Emits text as it becomes complete; an unfinished character at the end is held back.

    Decodes a short window twice, with and without the newest tokens, so that tokenizers that
    merge or space pieces by context give the same text as decoding everything at once.

    Args:
        tokenizer: a transformers tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._window = 0
        self._emitted = 0

    def push(self, token_id: int) -> str:
        """Text that became complete with this token, possibly empty."""
        self._ids.append(token_id)
        before = full_text(self._tokenizer, self._ids[self._window : self._emitted])
        now = full_text(self._tokenizer, self._ids[self._window :])
        if now.endswith("\ufffd") or len(now) <= len(before):
            return ""
        self._window, self._emitted = self._emitted, len(self._ids)
        return now[len(before) :]

    def flush(self) -> str:
        """What is still held back at the end, an unfinished character as U+FFFD."""
        before = full_text(self._tokenizer, self._ids[self._window : self._emitted])
        now = full_text(self._tokenizer, self._ids[self._window :])
        self._window = self._emitted = len(self._ids)
        return now[len(before) :]
