"""Rows of a bare .jsonl file: prompts, turns, conversations and logged requests of other formats.

A logged request is a row with ``body`` or ``request`` (what a client or a batch file records), or
an OpenAI request itself, known by its ``model``. It is put again as it was: its messages are one
request. How to sample and how much to write is the experiment's business, so those fields of it
are not used.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from specbench.suites.findings import RowError, explain, short
from specbench.suites.messages import Message, conversation, read_messages, request
from specbench.suites.schema import PASSED_ON

SPEAKERS = {
    "human": "user",
    "gpt": "assistant",
    "system": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
OLD_TOOLS = {"functions": "tools", "function_call": "tool_choice"}


def canonical_row(row: Mapping[str, object], ordinal: int) -> dict[str, object]:
    """A row of a bare file as a row of ``prompts.jsonl``.

    Takes ``turns``; ``prompt`` (one text); ``messages`` (OpenAI); ``conversations`` (ShareGPT);
    or a logged request. Ids of ShareGPT rows and logged requests are foreign and become
    ``row-<ordinal>``, counted over non-blank lines. ShareGPT rows start at their first human turn
    and need an answer.

    Raises:
        RowError: nothing of this, two of it at once, or messages that are none.
    """
    plain: dict[str, object] = {"id": f"row-{ordinal}", "category": "all", **row}
    base: dict[str, object] = {"id": f"row-{ordinal}", "category": plain["category"]}
    if any(key in plain for key in ("body", "request", "model")):
        return base | _logged(plain)
    if "conversations" in plain:
        messages = _from_sharegpt(plain.pop("conversations"))
        return base | conversation(messages) | _passed_on(plain)
    if "messages" in plain:
        _alone(plain, "messages", ("system", "turns", "recorded", "prompt", "context"))
        return plain | conversation(read_messages(plain.pop("messages")))
    if "prompt" in plain:
        _alone(plain, "prompt", ("turns", "recorded", "context"))
        plain["turns"] = [_text(plain.pop("prompt"))]
    return plain


def _logged(row: Mapping[str, object]) -> dict[str, object]:
    body: Mapping[str, object] = row
    for key in ("request", "body"):
        if key in body:
            inner = body[key]
            if not isinstance(inner, dict):
                raise RowError(f"{key}: {short(inner)} is not an object; write the request itself")
            body = inner
    for old, new in OLD_TOOLS.items():
        if body.get(old) is not None:
            raise RowError(f"{old}: the old form of {new}; write {new}")
    extra = body.get("extra_body")
    fields = _passed_on(body) | (_passed_on(extra) if isinstance(extra, dict) else {})
    if "messages" in body:
        return request(read_messages(body["messages"]), answered=False) | fields
    if "prompt" in body:
        return {"turns": [_text(body["prompt"])], **fields}
    raise RowError("a logged request without messages and prompt; write one of them")


def _passed_on(body: Mapping[str, object]) -> dict[str, object]:
    return {key: body[key] for key in PASSED_ON if body.get(key) is not None}


def _text(prompt: object) -> str:
    if not isinstance(prompt, str):
        raise RowError(f"prompt: {short(prompt)}; write one text")
    return prompt


def _alone(row: Mapping[str, object], key: str, others: tuple[str, ...]) -> None:
    for other in others:
        if other in row:
            raise RowError(f"{other!r} and {key!r} in one row; keep one of them")


def _from_sharegpt(turns: object) -> list[Message]:
    if not isinstance(turns, list):
        raise RowError(f"conversations: {short(turns)}; write a list of turns")
    messages = []
    for turn in turns:
        speaker = turn.get("from") if isinstance(turn, dict) else None
        if not isinstance(speaker, str) or speaker not in SPEAKERS:
            raise RowError(
                f"conversations: {short(turn)} has no known speaker; "
                'write {"from": "human"|"gpt"|"system", "value": "text"}'
            )
        try:
            messages.append(
                Message.model_validate({"role": SPEAKERS[speaker], "content": turn.get("value")})
            )
        except ValidationError as error:
            raise RowError(explain(error, "conversations")) from error
    first = next((i for i, m in enumerate(messages) if m.role == "user"), len(messages))
    kept = [m for m in messages[:first] if m.role == "system"] + messages[first:]
    if not any(m.role == "assistant" for m in kept):
        raise RowError("conversations: no human turn with an answer; write at least one of each")
    return kept
