"""Messages of OpenAI-style conversations, and what of a conversation is asked anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from specbench.suites.findings import RowError, explain


class Message(BaseModel):
    """One message; fields beside role and content (tool calls, their ids, names) are kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | None = None

    @field_validator("content", mode="before")
    @classmethod
    def _join_parts(cls, value: object) -> object:
        """Text in parts is one text; what is no text cannot be measured here."""
        if not isinstance(value, list):
            return value
        texts = []
        for part in value:
            kind = part.get("type") if isinstance(part, dict) else None
            text = part.get("text") if isinstance(part, dict) else None
            if kind not in ("text", "input_text") or not isinstance(text, str):
                what = f"a part of type {kind!r}" if kind else f"the part {part!r:.40}"
                raise ValueError(f"{what} is no text, and only text is measured")
            texts.append(text)
        return "".join(texts)

    @model_validator(mode="after")
    def _has_content(self) -> Self:
        if self.content is None and not (self.role == "assistant" and self.more()):
            raise ValueError(f"a message of role {self.role!r} without content")
        return self

    def more(self) -> dict[str, Any]:
        """Fields beside role and content that hold anything; logs are full of empty ones."""
        return {key: value for key, value in (self.model_extra or {}).items() if value}

    def plain(self) -> dict[str, Any]:
        """The message as it is sent."""
        return {"role": self.role, "content": self.content, **self.more()}


_MESSAGES = TypeAdapter(list[Message])


def read_messages(value: object, key: str = "messages") -> list[Message]:
    """Check a list of messages.

    Raises:
        RowError: not a list, an unknown role, or content that is no text.
    """
    try:
        return _MESSAGES.validate_python(value)
    except ValidationError as error:
        raise RowError(explain(error, key)) from error


def conversation(messages: Sequence[Message]) -> dict[str, object]:
    """A conversation whose every user message is a turn, the answers being ``recorded``.

    Where tools, other roles or more fields than role and content take part, the conversation
    cannot be put anew turn by turn: then it is one request, see ``request``.

    Raises:
        RowError: user and assistant do not alternate.
    """
    if any(m.role in ("tool", "developer") or m.more() for m in messages):
        return request(messages, answered=True)
    system = messages[0].content if messages and messages[0].role == "system" else None
    talk = messages if system is None else messages[1:]
    for index, message in enumerate(talk):
        expected = "assistant" if index % 2 else "user"
        if message.role != expected:
            raise RowError(
                f"messages: role {message.role!r} where {expected!r} is due; "
                "write an optional system message, then user and assistant in turn"
            )
    turns = [m.content for m in talk if m.role == "user"]
    recorded = [m.content for m in talk if m.role == "assistant"]
    return {"system": system, "turns": turns, "recorded": recorded}


def request(messages: Sequence[Message], *, answered: bool) -> dict[str, object]:
    """A logged conversation as one request: everything before it stays as it was recorded.

    Args:
        answered: messages of the assistant at the end are the recorded answer, not part of
            what is asked.

    Returns:
        ``turns`` with the last user message, ``recorded`` with the answer if it was text, and
        ``context`` with all messages of the request, unless system and turn say the same.

    Raises:
        RowError: no user message, or (not ``answered``) the last message is the assistant's.
    """
    asked = list(messages)
    while answered and asked and asked[-1].role == "assistant":
        asked.pop()
    last = next((m for m in reversed(asked) if m.role == "user"), None)
    if last is None:
        raise RowError("messages: no user message to answer; write at least one")
    if asked[-1].role not in ("user", "tool"):
        raise RowError(
            f"messages: the last one is of role {asked[-1].role!r}; "
            "a request ends with a user or tool message"
        )
    answer = messages[-1].content if len(asked) < len(messages) else None
    row: dict[str, object] = {"turns": [last.content]}
    if answer is not None:
        row["recorded"] = [answer]
    simple = [m.role for m in asked] in (["user"], ["system", "user"])
    if simple and not any(m.more() for m in asked):
        row["system"] = asked[0].content if len(asked) == 2 else None
    else:
        row["context"] = [m.plain() for m in asked]
    return row


def text_of(message: Mapping[str, object]) -> str:
    """The text of a message; empty where it has none, as beside tool calls."""
    content = message.get("content")
    return content if isinstance(content, str) else ""
