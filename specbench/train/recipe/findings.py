"""What is wrong with a recipe, in words: key, value, reason, what to write."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from specbench.train.recipe.methods import COUNTED, FAMILIES, OF_NEW_NETWORKS, READ_BY

WRITE = {
    "method": '"medusa1", "medusa2", "blockwise", "eagle1", "eagle3", "mtp", "distill" or "bigram"',
    "name": "lower-case letters, digits, '_', '.' and '-', beginning with a letter or digit",
    "target": 'a table [target] with model = "..."',
    "target.model": 'a named demo model, a Hugging Face id, a folder or a .gguf file, as "..."',
    "data": "a table [data] with [[data.prompts]]",
    "data.prompts": "at least one [[data.prompts]] table",
    "data.prompts.source": '"self", "library" or "suite"',
    "data.prompts.name": "letters, digits, '_', '.' and '-', beginning with a letter or digit",
    "data.prompts.count": "how many prompts, as 500",
    "data.prompts.suite": "a suite's name, a folder or a .jsonl file",
    "data.temperatures": "a list of numbers of at least 0, as [0.0, 0.7]",
    "data.held_out": "a share between 0 and 1, as 0.03",
    "train.betas": "two numbers from 0 to less than 1, as [0.9, 0.95]",
}
"""Key -> what to write."""


def explain(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """All findings of pydantic, one per line."""
    return [_finding(item, model) for item in error.errors(include_url=False)]


def _finding(item: Mapping[str, Any], model: type[BaseModel]) -> str:
    kind, value = item["type"], item["input"]
    place = _place(item["loc"])
    if kind.startswith("union_tag"):
        # The table's source decides what else is in it.
        place, value = [*place, "source"], value.get("source")
    key = ".".join(map(str, place)) or "the file"
    name = ".".join(part for part in place if isinstance(part, str))
    write = f"; write {WRITE[name]}" if name in WRITE else ""
    if kind in ("missing", "union_tag_not_found"):
        return f"{key}: missing{write}"
    if kind == "union_tag_invalid":
        return f"{key} = {_short(value)}: unknown{write}"
    if kind == "extra_forbidden":
        return f"{key} = {_short(value)}: unknown key; {_instead(model, item['loc'])}"
    if kind == "model_type":
        return f"{key} = {_short(value)}: not a table{write or f'; write [{key}] and keys below'}"
    if kind == "value_error":
        reason = str(item["msg"]).removeprefix("Value error, ")
        # What is wrong with a whole table is said of its keys.
        return (
            f"{key}: {reason}" if isinstance(value, Mapping | list) else _said(key, value, reason)
        )
    return f"{_said(key, value, item['msg'])}{write}"


def _said(key: str, value: object, reason: str) -> str:
    return f"{key} = {_short(value)}: {reason}"


def _place(loc: Sequence[int | str]) -> list[int | str]:
    """A place in the file: behind a number stands the source of a table, which is no key."""
    return [
        part
        for number, part in enumerate(loc)
        if not (isinstance(part, str) and number and isinstance(loc[number - 1], int))
    ]


def _instead(model: type[BaseModel], loc: Sequence[int | str]) -> str:
    name, known = str(loc[-1]), known_keys(model, loc[:-1])
    tables = _fields(model).items()
    homes = [table for table, inner in tables if any(name in _fields(m) for m in _models(inner))]
    if homes and len(loc) <= 2:
        return f"it belongs in [{homes[0]}]"
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(known)}"


def known_keys(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The keys that the table at a place takes."""
    kinds: list[Any] = [model]
    for part in place:
        if isinstance(part, int):
            continue
        fields = [field for kind in kinds for field in _fields(kind).items()]
        named = [inner for name, inner in fields if name == part]
        tagged = [kind for kind in kinds if _tag(kind) == part]
        kinds = tagged or [kind for annotation in named for kind in _models(annotation)]
    return list(dict.fromkeys(name for kind in kinds for name in _fields(kind)))


def _fields(kind: type[BaseModel]) -> dict[str, Any]:
    return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}


def _tag(kind: type[BaseModel]) -> str | None:
    field = kind.model_fields.get("source")
    tags = get_args(field.annotation) if field is not None else ()
    return tags[0] if len(tags) == 1 else None


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The tables in an annotation such as ``list[A | B]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [kind for inner in get_args(annotation) for kind in _models(inner)]


def misplaced(data: Mapping[str, Any]) -> list[str]:
    """Keys of a recipe that its method would not read, one finding each."""
    method = data.get("method")
    if not isinstance(method, str) or method not in FAMILIES:
        return []
    given = {
        f"{table}.{key}": value
        for table, inner in data.items()
        if isinstance(inner, Mapping)
        for key, value in inner.items()
    }
    return list(_misplaced(method, given))


def _misplaced(method: str, given: Mapping[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        readers = READ_BY.get(key)
        if method in COUNTED and key.startswith(("head.", "capture.", "train.")):
            yield _said(key, value, f"{method} counts answers and trains nothing; leave it out")
        elif readers is not None and method not in readers:
            yield _said(
                key, value, f"{method} does not read it, {' and '.join(readers)} do; leave it out"
            )
        elif key in OF_NEW_NETWORKS and "head.start" in given:
            yield _said(
                key,
                value,
                f"the network that head.start = {_short(given['head.start'])} names is as it is; "
                "leave one of them out",
            )
    vocabulary = given.get("head.draft_vocabulary")
    if vocabulary is not None and given.get("train.temperature", 1) != 1:
        yield _said(
            "train.temperature",
            given["train.temperature"],
            f"with head.draft_vocabulary = {vocabulary!r} the target's law is known at temperature "
            "1 alone; leave one of them out",
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
