"""An imported file as specbench keeps it: converted figures, refused ones, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from specbench.core.manifest import SCHEMA_VERSION
from specbench.errors import UsageError
from specbench.results.definitions import DEFINITIONS
from specbench.results.schema import read_document, strict_json
from specbench.results.store import IMPORTED, IMPORTS, write_atomic

HASH_DIGITS = 12
"""Digits of a file's hash in a table."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """One figure of a foreign file.

    Attributes:
        field: as the file names it.
        text: what the tool computes.
        metric: what it becomes here; empty where it is refused.
        how: how it is converted, or why it is refused.
    """

    field: str
    text: str
    metric: str = ""
    how: str = ""


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """One figure in our definitions.

    Attributes:
        suite, category: of its prompts; empty where the file does not say, and for all of them.
        definition: of the metric, with its version.
        stat: as in table.csv: value, mean, p50, rate_1 ...
        value: None where the file bounds it and says no more.
        low, high: what it surely lies between; both None where there is a value.
        n, counted: how many of what the file counted.
        field: the file's own name of what it was made from.
    """

    arm: str
    suite: str
    category: str
    metric: str
    definition: str
    stat: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int
    counted: str
    field: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A figure of the file that has no counterpart here, and why."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """One imported file.

    Attributes:
        name: of its folder.
        created: when it was imported, ISO time.
        format, tool: which reader took it, and the tool that wrote it.
        file, sha256: what was read.
        arm: what its speculative figures are called.
        k: longest draft; None where neither the file nor the reader of it said.
        conditions: what the file says of how it was measured.
        meanings: of the fields that were converted or refused.
        notes: what to know beside.
    """

    name: str
    created: str
    format: str
    tool: str
    file: str
    sha256: str
    arm: str
    k: int | None
    conditions: Mapping[str, str]
    meanings: tuple[Meaning, ...]
    rows: tuple[ImportedRow, ...]
    refused: tuple[Refused, ...] = ()
    notes: tuple[str, ...] = ()
    measured_by_specbench: bool = field(default=False, init=False)
    schema_version: int = SCHEMA_VERSION

    @property
    def outdated(self) -> list[str]:
        """Definitions that mean something else today."""
        labels = {row.metric: row.definition for row in self.rows}
        current = {name: found.label for name, found in DEFINITIONS.items()}
        return [label for metric, label in labels.items() if current.get(metric) != label]


_IMPORTED = TypeAdapter(Imported)


def imported_text(found: Imported) -> str:
    """The document as strict JSON."""
    return strict_json(_IMPORTED.dump_python(found, mode="json"))


def read_imported(folder: Path) -> Imported:
    """What imported.json says; ResultError names what is wrong with it."""
    return read_document(folder / IMPORTED, _IMPORTED, "import the file again")


def write_imported(found: Imported, out: Path) -> Path:
    """Make the folder of an import and return it; UsageError where it exists."""
    folder = out / IMPORTS / found.name
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise UsageError(f"{folder} exists already", "choose another --name") from error
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "choose another --out") from (
            error
        )
    write_atomic(folder / IMPORTED, imported_text(found))
    return folder
