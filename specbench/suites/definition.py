"""Definitions of public prompt sets: data only, in ``suites/public``, one TOML file per set.

A definition says where a set is, under which licence, and how one of its rows becomes one of our
prompts. The set itself is not part of specbench; ``hub.fetch`` makes a suite folder of it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator

from specbench.catalog import nearest
from specbench.core.cache import cache_folder
from specbench.errors import PrerequisiteError, UsageError
from specbench.suites.findings import explain
from specbench.suites.schema import Border, Id, Text

PROMPTS = ("turn", "turns", "messages", "conversations")


class Join(Border):
    """A second configuration whose rows stand beside those of the first, as ``joined``."""

    config: Text
    on: Text


class Source(Border):
    """Where a set is: a dataset of the hub, or one file at an address."""

    hub: Text | None = None
    url: Text | None = None
    config: Text | None = None
    split: Text = "train"
    revision: Text = "main"
    data_files: Text | None = None
    join: Join | None = None

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.hub is None) == (self.url is None):
            raise ValueError("exactly one of hub and url says where the set is")
        return self

    def __str__(self) -> str:
        return self.hub or self.url or ""


class Definition(Border):
    """One public set.

    ``text`` holds templates in which ``{{field}}`` or ``{{outer.inner}}`` stands for a value of
    the row: ``id``, ``category``, ``system``, ``turn`` and ``reference``. ``take`` names values
    that are used as they are: ``turns``, ``messages`` or ``conversations``, and request fields
    such as ``tools``. ``scoring`` is a scoring object of templates; its ``entry_point`` may be
    left to ``defined_in`` and ``called_in``: the function of the one that the other calls.
    ``rename`` puts other names for categories; ``placeholder`` is text that stands where a prompt
    should be; ``bad_rows`` is the share of rows that may be left out, with their reasons.
    """

    schema_version: Literal[1]
    name: Id
    title: Text
    license: Text
    max_new_tokens: int = Field(ge=1)
    source: Source
    text: dict[str, Text] = Field(default_factory=dict)
    take: dict[str, Text] = Field(default_factory=dict)
    scoring: dict[str, Text] = Field(default_factory=dict)
    tags: list[Text] = Field(default_factory=list)
    rename: dict[Text, Text] = Field(default_factory=dict)
    drop_system: bool = False
    placeholder: Text | None = None
    limit: int | None = Field(default=None, ge=1)
    bad_rows: float = Field(default=0.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _known_parts(self) -> Self:
        unknown = set(self.text) - {"id", "category", "system", "turn", "reference"}
        if unknown:
            raise ValueError(f"text has no {', '.join(sorted(unknown))}")
        if sum(name in self.text or name in self.take for name in PROMPTS) != 1:
            raise ValueError(f"exactly one of {', '.join(PROMPTS)} says what is asked")
        return self


def public_names() -> list[str]:
    """Names of the public sets that have a definition, sorted."""
    return sorted(path.stem for path in _files())


def definition(name: str) -> Definition:
    """The definition of a public set.

    Raises:
        UsageError: no such set, or a definition that is wrong.
    """
    path = next((path for path in _files() if path.stem == name), None)
    if path is None:
        raise UsageError(f"no public set {name!r}", nearest(name, public_names()))
    return read_definition(path)


def read_definition(path: Path) -> Definition:
    """A definition from its file, whose name is that of the set.

    Raises:
        UsageError: no TOML, or a wrong, missing or unknown key.
    """
    try:
        found = Definition.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error)}") from error
    if found.name != path.stem:
        raise UsageError(f"{path}: name: {found.name!r} is not {path.stem!r}", "rename one of them")
    return found


def fetched_folder(name: str) -> Path:
    """Where the suite made of a public set lies, or would lie."""
    return cache_folder() / "suites" / name


def require_fetched(name: str) -> Path:
    """The suite folder of a public set. Raises PrerequisiteError where it was not fetched."""
    folder = fetched_folder(name)
    if not (folder / "suite.toml").is_file():
        raise PrerequisiteError(
            f"the public set {name!r} is not on this disk",
            f"type: specbench suites fetch {name}\n  "
            f"or, with a copy of it: specbench suites fetch {name} --file FILE",
        )
    return folder


def data_roots() -> list[Path]:
    """Folders that may hold ``suites/``: package data, and the root of a source checkout."""
    package = Path(str(files("specbench")))
    roots = [package / "data"]
    # Beside an installed package lie foreign packages; only a checkout has pyproject.toml.
    if (package.parent / "pyproject.toml").is_file():
        roots.append(package.parent)
    return roots


def _files() -> Iterator[Path]:
    for root in data_roots():
        folder = root / "suites" / "public"
        if folder.is_dir():
            yield from folder.glob("*.toml")
            return
