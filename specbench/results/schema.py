"""Versions of result files: read first, older ones migrated step by step, newer ones refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from specbench.core.manifest import SCHEMA_VERSION, Manifest
from specbench.errors import UsageError

Document = dict[str, object]
T = TypeVar("T")

MIGRATIONS: Mapping[int, Callable[[Document], Document]] = {}
"""Version n -> the step from n to n + 1. None yet: version 1 is the first."""

_MANIFEST = TypeAdapter(Manifest)


class ResultError(UsageError):
    """A result file that cannot be read or does not fit; the message names the place."""


def upgrade(
    document: Mapping[str, object],
    source: str,
    migrations: Mapping[int, Callable[[Document], Document]] = MIGRATIONS,
    current: int = SCHEMA_VERSION,
) -> Document:
    """The document in the current version.

    Raises:
        ResultError: no version, a newer version, or an older one that no step leads from.
    """
    version = document.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ResultError(f"{source}: no schema_version: this is not a result file of specbench")
    if version > current:
        raise ResultError(
            f"{source}: schema_version {version} is newer than this specbench reads ({current})",
            "upgrade specbench",
        )
    upgraded = dict(document)
    for step in range(version, current):
        if step not in migrations:
            raise ResultError(f"{source}: schema_version {version} can no longer be read")
        upgraded = migrations[step](upgraded) | {"schema_version": step + 1}
    return upgraded


def read_manifest(document: Mapping[str, object], source: str) -> Manifest:
    """The manifest behind parsed JSON."""
    upgraded = upgrade(document, source)
    try:
        return _MANIFEST.validate_python(upgraded)
    except ValidationError as error:
        raise ResultError(f"{source}: {finding(error)}") from error


def finding(error: ValidationError) -> str:
    """The first thing that is wrong with a document: key, value and why."""
    item = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"{key} is missing"
    text = repr(item["input"])
    return f"{key} = {text if len(text) <= LONGEST else text[: LONGEST - 3] + '...'}: {item['msg']}"


LONGEST = 80
"""Characters of a refused value in a message."""


def strict_json(document: Document) -> str:
    """A document as it is written to a file; ValueError for numbers that JSON does not have."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_document(path: Path, adapter: TypeAdapter[T], hint: str) -> T:
    """What a JSON file of results says; ResultError names what is wrong with it.

    Args:
        hint: how to get the file back.
    """
    try:
        document = json.loads(path.read_bytes())
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
        return adapter.validate_python(upgrade(document, str(path)))
    except (OSError, ValueError, ValidationError) as error:
        raise ResultError(f"{path}: cannot be read: {error}", hint) from error


def manifest_document(manifest: Manifest) -> Document:
    """The manifest as plain JSON values."""
    document = _MANIFEST.dump_python(manifest, mode="json")
    assert isinstance(document, dict)
    return document
