"""The shape of suite.toml and of a row of prompts.jsonl; wrong values are named here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from specbench.catalog import nearest
from specbench.core.suite import Prompt, Scoring
from specbench.suites.split import split_of

SCHEMA_VERSION = 1

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]

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
    "recorded": "a list of strings, one per turn, or one less",
    "reference": "a string, or leave the key out",
    "scoring": 'an object whose kind is "python", "json" or "translation"',
    "entry_point": "the name of the function that the tests call",
    "tests": "Python source that raises if the answer is wrong",
    "required": "a list of at least one key that the answer must have",
    "tags": "a list of strings",
    "messages": 'a list of {"role": "system"|"user"|"assistant", "content": "text"}',
    "role": '"system" (first message only), "user" or "assistant"',
    "content": "a string",
    "schema_version": f"schema_version = {SCHEMA_VERSION}",
}


class RowError(Exception):
    """A row or a file that does not fit; the text names key, value and what to write."""


class _Border(BaseModel):
    # strict: "1" is not 1 and true is not a number; a wrong type is a wrong file.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PythonScoring(_Border):
    """The answer is a function, run against tests."""

    kind: Literal["python"]
    entry_point: Text
    tests: Text


class JsonScoring(_Border):
    """The answer is a JSON object with these keys."""

    kind: Literal["json"]
    required: list[Text] = Field(min_length=1)


class TranslationScoring(_Border):
    """The answer is a translation of ``source``."""

    kind: Literal["translation"]
    source_language: Text
    target_language: Text
    source: Text


class PromptRow(_Border):
    """One line of prompts.jsonl."""

    id: Id
    category: Text
    system: str | None = None
    turns: list[str] = Field(min_length=1)
    recorded: list[str] = Field(default_factory=list, validate_default=True)
    reference: str | None = None
    scoring: (
        Annotated[PythonScoring | JsonScoring | TranslationScoring, Field(discriminator="kind")]
        | None
    ) = None
    tags: list[Text] = Field(default_factory=list)

    @field_validator("category")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        known = info.context
        if known is not None and value not in known:
            raise ValueError(f"unknown category; {nearest(value, list(known))}")
        return value

    @field_validator("recorded")
    @classmethod
    def _one_per_turn(cls, value: list[str], info: ValidationInfo) -> list[str]:
        turns = len(info.data.get("turns", ()))
        if turns and len(value) not in (turns - 1, turns):
            raise ValueError(f"{len(value)} recorded answers for {turns} turns")
        return value


class Defaults(_Border):
    """The [defaults] table."""

    max_new_tokens: int = Field(ge=1)


class SuiteFile(_Border):
    """suite.toml."""

    schema_version: Literal[1]
    name: Id
    version: Text
    title: Text
    license: Text
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    defaults: Defaults
    categories: dict[Text, str] = Field(min_length=1)


class _Message(_Border):
    role: Literal["system", "user", "assistant"]
    content: str


_MESSAGES = TypeAdapter(list[_Message])


def read_suite_file(data: Mapping[str, object]) -> SuiteFile:
    """Check the content of suite.toml; its version comes before anything else.

    Raises:
        RowError: another schema version, or a wrong, missing or unknown key.
    """
    version = data.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        found = "is missing" if version is None else f"= {version!r} is not a whole number"
        raise RowError(f"schema_version {found}; write schema_version = {SCHEMA_VERSION}")
    if version > SCHEMA_VERSION:
        raise RowError(
            f"schema_version = {version} is newer than this specbench reads "
            f"(up to {SCHEMA_VERSION}); upgrade specbench, or use an older copy of the suite"
        )
    try:
        return SuiteFile.model_validate(data)
    except ValidationError as error:
        raise RowError(explain(error)) from error


def read_row(
    row: Mapping[str, object], suite_name: str, categories: Mapping[str, str] | None
) -> Prompt:
    """Check one row of prompts; ``categories`` None accepts every category.

    Raises:
        RowError: a wrong, missing or unknown key.
    """
    try:
        checked = PromptRow.model_validate(row, context=categories)
    except ValidationError as error:
        raise RowError(explain(error)) from error
    return Prompt(
        id=checked.id,
        category=checked.category,
        split=split_of(suite_name, checked.id),
        turns=tuple(checked.turns),
        system=checked.system,
        recorded=tuple(checked.recorded),
        reference=checked.reference,
        scoring=_scoring(checked.scoring),
        tags=tuple(checked.tags),
    )


def _scoring(row: PythonScoring | JsonScoring | TranslationScoring | None) -> Scoring | None:
    if row is None:
        return None
    if isinstance(row, JsonScoring):
        return Scoring(kind=row.kind, required=tuple(row.required))
    return Scoring(**row.model_dump())


def canonical_row(row: Mapping[str, object], ordinal: int) -> dict[str, object]:
    """A row of a bare file with ``turns`` for ``messages``, and default id and category.

    ShareGPT rows (``conversations`` of human and gpt) start at their first human turn and need an
    answer; their ids are foreign and become ``row-<ordinal>``, counted over non-blank lines.

    Raises:
        RowError: the conversation does not alternate, or a message is not one.
    """
    plain: dict[str, object] = {"id": f"row-{ordinal}", "category": "all", **row}
    if "conversations" in plain:
        messages = _from_sharegpt(plain.pop("conversations"))
        plain = {"id": f"row-{ordinal}", "category": plain["category"], **_split_roles(messages)}
    elif "messages" in plain:
        for key in ("system", "turns", "recorded"):
            if key in plain:
                raise RowError(f"{key!r} and 'messages' in one row; keep one of them")
        try:
            messages = _MESSAGES.validate_python(plain.pop("messages"))
        except ValidationError as error:
            raise RowError(explain(error, "messages")) from error
        plain.update(_split_roles(messages))
    return plain


def _from_sharegpt(turns: object) -> list[_Message]:
    roles = {"human": "user", "gpt": "assistant", "system": "system"}
    if not isinstance(turns, list):
        raise RowError(f"conversations: {_short(turns)}; write a list of turns")
    messages = []
    for turn in turns:
        speaker = turn.get("from") if isinstance(turn, dict) else None
        if not isinstance(speaker, str) or speaker not in roles:
            raise RowError(
                f"conversations: {_short(turn)} has no known speaker; "
                'write {"from": "human"|"gpt"|"system", "value": "text"}'
            )
        try:
            messages.append(
                _Message.model_validate({"role": roles[speaker], "content": turn.get("value")})
            )
        except ValidationError as error:
            raise RowError(explain(error, "conversations")) from error
    first = next((i for i, m in enumerate(messages) if m.role == "user"), len(messages))
    kept = [m for m in messages[:first] if m.role == "system"] + messages[first:]
    if sum(m.role != "system" for m in kept) < 2:
        raise RowError("conversations: no human turn with an answer; write at least one of each")
    return kept


def _split_roles(messages: Sequence[_Message]) -> dict[str, object]:
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


def explain(error: ValidationError, start: str = "") -> str:
    """All findings of pydantic as: key, offending value, what is wrong, what to write."""
    findings = []
    for item in error.errors(include_url=False):
        place = [start, *item["loc"]] if start else list(item["loc"])
        # A tagged union puts its tag into the place: scoring.python.tests -> scoring.tests
        if place[0] == "scoring" and len(place) > 2:
            del place[1]
        key = ".".join(str(part) for part in place)
        name = next((p for p in reversed(place) if isinstance(p, str) and p in WRITE), "")
        write = f"; write {WRITE[name]}" if name else ""
        if item["type"] == "missing":
            findings.append(f"{key}: missing{write}")
        elif item["type"] == "extra_forbidden":
            findings.append(f"{key}: unknown key with value {_short(item['input'])}; remove it")
        else:
            reason = item["msg"].removeprefix("Value error, ")
            findings.append(f"{key}: {_short(item['input'])}: {reason}{write}")
    return " | ".join(findings)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
