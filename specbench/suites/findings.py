"""What is wrong with a row or a file, in words: key, value, reason, what to write."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

WRITE = {
    "id": "lower-case letters, digits, '_' and '-', starting with a letter or digit",
    "name": "lower-case letters, digits, '_' and '-', starting with a letter or digit",
    "version": 'a string such as "1.0.0"',
    "title": "one line that says what the suite holds",
    "license": 'an SPDX identifier such as "CC0-1.0"',
    "digest": '"sha256:" and 64 lower-case hexadecimal digits',
    "max_new_tokens": "a whole number of at least 1",
    "categories": 'one line per category: name = "description"',
    "defaults": "a table with max_new_tokens = 128",
    "category": "a category that suite.toml declares",
    "system": "a string, or leave the key out",
    "turns": "a list of at least one string, one per user turn",
    "recorded": "a list of strings, one per turn, or one less; or leave the key out",
    "reference": "a string, or leave the key out",
    "scoring": 'an object whose kind is "python", "json" or "translation"',
    "entry_point": "the name of the function that the tests call",
    "tests": "Python source that raises if the answer is wrong",
    "required": "a list of at least one key that the answer must have",
    "tags": "a list of strings",
    "messages": 'a list of {"role": "system"|"user"|"assistant", "content": "text"}',
    "context": "a list of messages that ends with one of the user or of a tool",
    "role": '"system", "developer", "user", "assistant" or "tool"',
    "content": "a string",
    "tools": "a list of tool definitions, or leave the key out",
    "response_format": "an object, or leave the key out",
    "chat_template_kwargs": "an object, or leave the key out",
    "schema_version": "schema_version = 1",
}


class RowError(Exception):
    """A row or a file that does not fit; the text names key, value and what to write."""


class FieldMissing(RowError):
    """A row of a set without a field that its definition reads."""

    def __init__(self, field: str, row: Mapping[str, object]) -> None:
        super().__init__(f"{field}: not in the row, which has {', '.join(map(str, row))}")
        self.field = field


def explain(error: ValidationError, start: str = "") -> str:
    """All findings of pydantic as: key, offending value, what is wrong, what to write."""
    findings = []
    for item in error.errors(include_url=False):
        place = [start, *item["loc"]] if start else list(item["loc"])
        # A tagged union puts its tag into the place: scoring.python.tests -> scoring.tests
        if place and place[0] == "scoring" and len(place) > 2:
            del place[1]
        key = ".".join(str(part) for part in place)
        name = next((p for p in reversed(place) if isinstance(p, str) and p in WRITE), "")
        write = f"; write {WRITE[name]}" if name else ""
        if item["type"] == "missing":
            findings.append(f"{key}: missing{write}")
        elif item["type"] == "extra_forbidden":
            findings.append(f"{key}: unknown key with value {short(item['input'])}; remove it")
        else:
            reason = item["msg"].removeprefix("Value error, ")
            findings.append(f"{key}: {short(item['input'])}: {reason}{write}")
    return " | ".join(findings)


def short(value: object) -> str:
    """A value as one line of at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
