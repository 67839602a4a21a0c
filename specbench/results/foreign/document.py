"""A foreign file as JSON objects: strict about encoding, torn lines and numbers that are none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specbench.errors import PrerequisiteError
from specbench.results.schema import ResultError, finding

Object = dict[str, Any]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]

CLOSE = 1e-6
"""Relative difference that rounding in a foreign file explains."""


class Foreign(BaseModel):
    """Part of a foreign file; fields that nobody asks for are left alone."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


Model = TypeVar("Model", bound=Foreign)


@dataclass(frozen=True, slots=True)
class Document:
    """The objects of a file: one of a JSON file, one per line of a JSONL file."""

    place: str
    sha256: str
    objects: tuple[Object, ...]

    @property
    def only(self) -> Object:
        """Its only object; ResultError where it holds several."""
        if len(self.objects) > 1:
            raise ResultError(
                f"{self.place}: holds {len(self.objects)} results", "split it: one result per file"
            )
        return self.objects[0]


def read_file(path: Path) -> Document:
    """Read a JSON or JSONL file.

    Raises:
        PrerequisiteError: it cannot be read.
        ResultError: empty, not UTF-8, torn, not JSON objects, or NaN where JSON has numbers.
    """
    place = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PrerequisiteError(f"cannot read {place}: {error.strerror}", "name a file") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ResultError(f"{place}: byte {error.start} is not UTF-8", "restore it") from error
    if not text.strip():
        raise ResultError(f"{place}: empty", "the tool that wrote it may not have finished")
    return Document(place, sha256(raw).hexdigest(), tuple(_objects(text, place)))


def _objects(text: str, place: str) -> list[Object]:
    try:
        return [_object(_loads(text), place)]
    except json.JSONDecodeError as error:
        whole = error
    except ValueError as error:
        raise ResultError(f"{place}: {error}", "restore it") from error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    found: list[Object] = []
    for number, line in lines:
        try:
            found.append(_object(_loads(line), f"{place}, line {number}"))
        except ValueError as error:
            if not found:
                raise _torn(place, whole) from error
            raise ResultError(f"{place}, line {number}: not JSON: {error}", TORN) from error
    return found


TORN = "the file may be torn: write it again, or restore it"


def _torn(place: str, error: json.JSONDecodeError) -> ResultError:
    return ResultError(
        f"{place}, line {error.lineno}, column {error.colno}: not JSON: {error.msg}", TORN
    )


def _loads(text: str) -> object:
    return json.loads(text, parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _object(value: object, place: str) -> Object:
    if not isinstance(value, dict):
        raise ResultError(f"{place}: not a JSON object", "see `specbench import --help`")
    return value


def parsed(model: type[Model], value: object, place: str) -> Model:
    """A part of a file, checked; ResultError names the field and what is wrong with it."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise ResultError(f"{place}: {finding(error)}", "restore it, or see --from") from error


def agree(place: str, name: str, said: float, computed: float, how: str) -> None:
    """Refuse a figure that contradicts the counts beside it."""
    if abs(said - computed) > CLOSE * max(abs(said), abs(computed), 1.0):
        raise ResultError(
            f"{place}: {name} = {said:g}, but {how} = {computed:g}",
            "the file contradicts itself: import what the tool wrote",
        )
