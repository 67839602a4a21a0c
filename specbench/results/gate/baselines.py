"""Named runs that others are held against, in ``baselines.toml`` beside them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from specbench.catalog import nearest
from specbench.errors import PrerequisiteError, UsageError
from specbench.results.read import find_run
from specbench.results.schema import ResultError
from specbench.results.store import RunFolder, write_atomic
from specbench.results.summary import read_summary

FILE = "baselines.toml"
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    run: str
    items_sha256: str
    set: str
    again: list[str] = Field(default_factory=list)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    schema_version: Literal[1]
    baseline: dict[Annotated[str, Field(pattern=NAME)], _Entry] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Baseline:
    """A named run.

    Attributes:
        name: what it is called.
        run: id of its folder, beside ``baselines.toml``.
        items_sha256: of its items.csv when it was set, so that it is noticed if that changes.
        since: when it was set, ISO time.
        again: ids of further runs of the same experiment, which show how much nothing differs.
    """

    name: str
    run: str
    items_sha256: str
    since: str
    again: tuple[str, ...] = ()


def read_baselines(out: Path) -> dict[str, Baseline]:
    """All baselines of a folder of runs; none where there is no file.

    Raises:
        ResultError: the file cannot be read.
    """
    path = out / FILE
    if not path.is_file():
        return {}
    try:
        document = _Document.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise ResultError(f"{path}: cannot be read: {error}", "restore it, or remove it") from error
    return {
        name: Baseline(name, one.run, one.items_sha256, one.set, tuple(one.again))
        for name, one in document.baseline.items()
    }


def find_baseline(name: str, out: Path) -> Baseline:
    """A baseline by name.

    Raises:
        PrerequisiteError: there is none of that name.
        ResultError: its items.csv is not the one that was set.
    """
    known = read_baselines(out)
    if name not in known:
        hint = nearest(name, list(known)) if known else "there is none yet"
        raise PrerequisiteError(
            f"no baseline {name!r} in {out / FILE}",
            f"{hint}; set one: specbench baseline set {name} RUN",
        )
    found = known[name]
    folder = RunFolder(out / found.run)
    if not folder.items.is_file():
        raise PrerequisiteError(
            f"baseline {name}: {folder.items} is not there",
            f"copy the run to {folder.path}, or set another: specbench baseline set {name} RUN",
        )
    if hashed(folder) != found.items_sha256:
        raise ResultError(
            f"baseline {name}: {folder.items} is not the file that was set on {found.since}",
            f"restore it, or set it anew: specbench baseline set {name} {found.run}",
        )
    return found


def set_baseline(name: str, run: str, out: Path, now: datetime | None = None) -> Baseline:
    """Name a run; a baseline of that name is replaced, and its further runs are forgotten.

    Raises:
        UsageError: a name that is no name, a run elsewhere, or one that is not complete.
    """
    folder = _member(run, out)
    if not read_summary(folder).complete:
        raise UsageError(
            f"{folder.path} is not complete", f"finish it: specbench run --resume {folder.path}"
        )
    since = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = Baseline(name, folder.path.name, hashed(folder), since)
    _write(out, read_baselines(out) | {name: made})
    return made


def add_again(name: str, run: str, out: Path) -> Baseline:
    """Add a further run of the same experiment to a baseline; see ``set_baseline``."""
    old = find_baseline(name, out)
    folder = _member(run, out)
    made = Baseline(name, old.run, old.items_sha256, old.since, (*old.again, folder.path.name))
    _write(out, read_baselines(out) | {name: made})
    return made


def hashed(folder: RunFolder) -> str:
    """SHA-256 of a run's items.csv."""
    return sha256(folder.items.read_bytes()).hexdigest()


def _member(run: str, out: Path) -> RunFolder:
    folder = find_run(run, out)
    if folder.path.resolve().parent != out.resolve():
        raise UsageError(
            f"{folder.path} is not in {out}", f"a baseline's runs lie beside {FILE}: copy it there"
        )
    if not folder.items.is_file():
        raise UsageError(f"{folder.items} is not there", f"type: specbench rescore {folder.path}")
    return folder


def _write(out: Path, baselines: Mapping[str, Baseline]) -> None:
    document = {
        "schema_version": 1,
        "baseline": {
            one.name: {
                "run": one.run,
                "items_sha256": one.items_sha256,
                "set": one.since,
                **({"again": list(one.again)} if one.again else {}),
            }
            for one in baselines.values()
        },
    }
    try:
        _Document.model_validate(document)
    except ValidationError as error:
        name = error.errors(include_url=False)[0]["input"]
        raise UsageError(
            f"{name!r} is no name of a baseline", "use letters, digits, '_', '.' and '-'"
        ) from error
    write_atomic(out / FILE, tomli_w.dumps(document))
