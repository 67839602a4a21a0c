"""From a row of a public set to a row of prompts.jsonl, as a definition says."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from specbench.suites.bare import canonical_row
from specbench.suites.definition import Definition
from specbench.suites.findings import FieldMissing, RowError, short

_PLACE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_DEFINED = re.compile(r"^(?:async\s+)?def\s+(\w+)", re.MULTILINE)
HELPERS = ("defined_in", "called_in")
"""Keys of a definition's scoring that name fields, where the others are templates."""

_NOT_ID = re.compile(r"[^a-z0-9_-]+")


def mapped_row(found: Definition, row: Mapping[str, object], ordinal: int) -> dict[str, object]:
    """One row as prompts.jsonl holds it.

    Args:
        row: a row of the set, with the fields that its definition names.
        ordinal: place of the row in the set, from 1; its id where the set has none.

    Raises:
        FieldMissing: a field that the definition reads is not there.
        RowError: a value is of another kind, or the row holds a placeholder instead of a prompt.
    """
    made: dict[str, object] = {}
    for key, path in found.take.items():
        value = _value(row, path)
        if value is not None:
            made[key] = _parsed(value, path) if key not in ("turns", "messages") else value
    if "turn" in found.text:
        made["turns"] = [_filled(found.text["turn"], row)]
    made = canonical_row(made, ordinal)
    made["id"] = _identifier(found, row, ordinal)
    category = _filled(found.text.get("category", "all"), row)
    made["category"] = found.rename.get(category, category)
    for key in ("system", "reference"):
        if key in found.text and (text := _optional(found.text[key], row)):
            made[key] = text
    if found.drop_system:
        made.pop("system", None)
        context = made.get("context")
        if isinstance(context, list):
            made["context"] = [m for m in context if m["role"] != "system"]
    if found.scoring:
        made["scoring"] = _scoring(found.scoring, row)
    if found.tags:
        made["tags"] = [_filled(tag, row) for tag in found.tags]
    _refuse_placeholder(found, made)
    return {key: value for key, value in made.items() if value is not None}


def fields_read(found: Definition) -> set[str]:
    """Names of the fields of a row that a definition looks at."""
    templates = [*found.text.values(), *found.tags]
    templates += [t for key, t in found.scoring.items() if key not in HELPERS]
    paths = [path for template in templates for path in _PLACE.findall(template)]
    paths += [*found.take.values(), *(found.scoring[k] for k in HELPERS if k in found.scoring)]
    return {path.partition(".")[0] for path in paths}


def _identifier(found: Definition, row: Mapping[str, object], ordinal: int) -> str:
    given = _filled(found.text["id"], row) if "id" in found.text else ""
    plain = _NOT_ID.sub("-", given.lower()).strip("-_")
    return plain or f"row-{ordinal}"


def _scoring(templates: Mapping[str, str], row: Mapping[str, object]) -> dict[str, object]:
    made: dict[str, object] = {
        key: _filled(template, row) for key, template in templates.items() if key not in HELPERS
    }
    if "defined_in" in templates:
        code, tests = (_text(_value(row, templates[key])) for key in HELPERS)
        names = [n for n in _DEFINED.findall(code) if re.search(rf"\b{n}\s*\(", tests)]
        if not names:
            raise RowError(f"{templates['defined_in']}: defines no function that the tests call")
        made["entry_point"] = names[-1]
    return made


def _refuse_placeholder(found: Definition, made: Mapping[str, object]) -> None:
    turns = made.get("turns")
    if found.placeholder and any(found.placeholder in str(turn) for turn in _listed(turns)):
        raise RowError("turns: a placeholder; this text must be taken from its own source")


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _parsed(value: object, path: str) -> object:
    """Objects that a set stores as JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise RowError(f"{path}: {short(value)} is not JSON: {error}") from error


def _filled(template: str, row: Mapping[str, object]) -> str:
    def fill(place: re.Match[str]) -> str:
        value = _value(row, place[1])
        if value is None:
            raise FieldMissing(place[1], row)
        return _text(value)

    return _PLACE.sub(fill, template)


def _optional(template: str, row: Mapping[str, object]) -> str:
    """The filled template; empty where a field of it is not there."""
    if any(_value(row, path) is None for path in _PLACE.findall(template)):
        return ""
    return _filled(template, row)


def _value(row: Mapping[str, object], path: str) -> object:
    value: object = row
    for key in path.split("."):
        if isinstance(value, list | tuple):
            value = value[int(key)] if key.isdigit() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _text(value: object) -> str:
    """A value as text: the items of a list, however deep, on lines of their own."""
    if isinstance(value, list | tuple):
        return "\n".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
