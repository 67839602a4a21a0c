"""Bytes of server-sent events as OpenAI-compatible servers write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"


def event(payload: object, newline: str = "\n") -> bytes:
    """One event with a JSON payload; ``newline`` may be CRLF or CR."""
    text = json.dumps(payload, ensure_ascii=False)
    return f"data: {text}{newline}{newline}".encode()


def usage(
    completion: int, prompt: int | None = None, cached: int | None = None
) -> dict[str, object]:
    """A ``usage`` object."""
    made: dict[str, object] = {"completion_tokens": completion}
    if prompt is not None:
        made |= {"prompt_tokens": prompt, "total_tokens": prompt + completion}
    if cached is not None:
        made["prompt_tokens_details"] = {"cached_tokens": cached}
    return made


def chat(
    content: str | None = None,
    *,
    role: str | None = None,
    reasoning: str | None = None,
    reasoning_content: str | None = None,
    tool_calls: Sequence[Mapping[str, object]] | None = None,
    finish: str | None = None,
    counted: Mapping[str, object] | None = None,
    beside: Mapping[str, object] | None = None,
    **more: object,
) -> bytes:
    """One event of the chat route; arguments that are None are left out of the delta.

    Args:
        counted: the ``usage`` object of this event (continuous usage).
        beside: further fields of the event, e.g. ``timings``.
        more: further fields of the choice, e.g. ``token_ids`` or ``stop_reason``.
    """
    fields = {
        "role": role,
        "content": content,
        "reasoning": reasoning,
        "reasoning_content": reasoning_content,
        "tool_calls": tool_calls,
    }
    delta = {name: value for name, value in fields.items() if value is not None}
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return event(_document("chat.completion.chunk", choice, counted, beside))


def text(
    content: str = "",
    *,
    finish: str | None = None,
    counted: Mapping[str, object] | None = None,
    beside: Mapping[str, object] | None = None,
    **more: object,
) -> bytes:
    """One event of the completions route; arguments as in ``chat``."""
    choice = {"index": 0, "text": content, "finish_reason": finish, **more}
    return event(_document("text_completion", choice, counted, beside))


def usage_only(completion: int, prompt: int | None = None, cached: int | None = None) -> bytes:
    """The event without choices that ``stream_options.include_usage`` asks for."""
    counted = usage(completion, prompt, cached)
    return event({"object": "chat.completion.chunk", "choices": [], "usage": counted})


def error(message: str, code: int = 500) -> bytes:
    """An error event, possible after a status of 200 (case D8)."""
    return event({"error": {"message": message, "type": "InternalServerError", "code": code}})


def _document(
    kind: str,
    choice: object,
    counted: Mapping[str, object] | None,
    beside: Mapping[str, object] | None,
) -> dict[str, object]:
    made: dict[str, object] = {"id": "fake-1", "object": kind, "model": "fake", "choices": [choice]}
    if counted is not None:
        made["usage"] = counted
    return made | dict(beside or {})
