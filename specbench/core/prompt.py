"""A conversation after the chat template: what a model really receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
"""One message of a conversation: ``role``, ``content``, and what tools add to it."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A conversation as the model sees it.

    Attributes:
        token_ids: the ids sent to the model; empty for an empty prompt without BOS.
        text: the rendered text behind them.
        digest: SHA-256 of ``text`` in UTF-8, hexadecimal.
        template: ``none``, or ``sha256:<hex>`` of the template's source; empty if unknown.
        policy: the system policy that had to be applied; empty if the template needed none.
    """

    token_ids: tuple[int, ...]
    text: str
    digest: str
    template: str = ""
    policy: str = ""
    tokenised: bool = True
    """False where no tokenizer is at hand: ``token_ids`` is then empty, whatever the text."""
