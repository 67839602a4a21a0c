"""The shape of suite.toml and of a row of prompts.jsonl; wrong values are named here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from specbench.catalog import nearest
from specbench.core.suite import Prompt, Scoring
from specbench.suites.findings import RowError, explain
from specbench.suites.messages import Message
from specbench.suites.split import split_of

SCHEMA_VERSION = 1

PASSED_ON = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "chat_template_kwargs",
)
"""Request fields that reach a server unchanged; the first and the last change the prompt too."""

Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Text = Annotated[str, StringConstraints(min_length=1)]


class Border(BaseModel):
    """A table of a file, where a wrong type or an unknown key is a wrong file."""

    # strict: "1" is not 1 and true is not a number.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PythonScoring(Border):
    """The answer is a function, run against tests."""

    kind: Literal["python"]
    entry_point: Text
    tests: Text


class JsonScoring(Border):
    """The answer is a JSON object with these keys."""

    kind: Literal["json"]
    required: list[Text] = Field(min_length=1)


class TranslationScoring(Border):
    """The answer is a translation of ``source``."""

    kind: Literal["translation"]
    source_language: Text
    target_language: Text
    source: Text


class PromptRow(Border):
    """One line of prompts.jsonl."""

    id: Id
    category: Text
    system: str | None = None
    turns: list[str] = Field(min_length=1)
    recorded: list[str] = Field(default_factory=list)
    reference: str | None = None
    scoring: (
        Annotated[PythonScoring | JsonScoring | TranslationScoring, Field(discriminator="kind")]
        | None
    ) = None
    tags: list[Text] = Field(default_factory=list)
    context: list[Message] = Field(default_factory=list)
    tools: list[dict[str, Any]] | None = Field(default=None, min_length=1)
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

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
        if turns and value and len(value) not in (turns - 1, turns):
            raise ValueError(f"{len(value)} recorded answers for {turns} turns")
        return value

    @field_validator("context")
    @classmethod
    def _asks(cls, value: list[Message], info: ValidationInfo) -> list[Message]:
        if value and value[-1].role not in ("user", "tool"):
            raise ValueError(f"ends with a message of role {value[-1].role!r}")
        if value and info.data.get("system") is not None:
            raise ValueError("a system message beside a context, which holds its own")
        last = next((m.content for m in reversed(value) if m.role == "user"), None)
        if value and last != info.data.get("turns", [last])[0]:
            raise ValueError("the first turn is not the last user message of the context")
        return value


class Defaults(Border):
    """The [defaults] table."""

    max_new_tokens: int = Field(ge=1)


class SuiteFile(Border):
    """suite.toml."""

    schema_version: Literal[1]
    name: Id
    version: Text
    title: Text
    license: Text
    digest: Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
    defaults: Defaults
    categories: dict[Text, str] = Field(min_length=1)


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
        passed_on={key: value for key in PASSED_ON if (value := getattr(checked, key)) is not None},
        context=tuple(message.plain() for message in checked.context),
    )


def _scoring(row: PythonScoring | JsonScoring | TranslationScoring | None) -> Scoring | None:
    if row is None:
        return None
    if isinstance(row, JsonScoring):
        return Scoring(kind=row.kind, required=tuple(row.required))
    return Scoring(**row.model_dump())
