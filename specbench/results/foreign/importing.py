"""From a file of another tool to what specbench keeps of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from specbench.errors import UsageError
from specbench.results.foreign.document import CLOSE, read_file
from specbench.results.foreign.format import Asked, Reading
from specbench.results.foreign.formats import AUTO, format_of
from specbench.results.foreign.imported import Imported
from specbench.results.schema import ResultError

NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
LENGTHS = ("accept_length", "accept_length_drafted", "accept_length_uncut")


def import_file(
    path: Path, name: str | None, asked: Asked, form: str = AUTO, now: datetime | None = None
) -> Imported:
    """Read a file and convert its figures; nothing is written.

    Args:
        name: of the folder it will have; the file's own without its ending where it is None.
        form: a format by name, or ``auto``.

    Raises:
        PrerequisiteError: the file cannot be read.
        UsageError: a name or option that is none.
        ResultError: the file is damaged, of no known format, or contradicts itself.
    """
    called = re.sub(r"[^A-Za-z0-9_.-]+", "-", path.stem).strip("-.") if name is None else name
    if not NAME.match(called):
        raise UsageError(
            f"{called!r} is no name of an import", "use letters, digits, '_', '.', '-'"
        )
    document = read_file(path)
    found = format_of(document, form)
    if asked.method is not None and found.name != "spec-bench":
        raise UsageError(
            f"--method is for files of Spec-Bench, not of {found.tool}", "leave it out"
        )
    reading = found.read(document, asked)
    if not reading.rows:
        reasons = "\n  ".join(dict.fromkeys(one.reason for one in reading.refused))
        raise ResultError(f"{document.place}: none of its figures can be converted", reasons)
    k = _longest(asked, reading, document.place)
    _refuse_impossible(reading, k, document.place)
    return Imported(
        name=called,
        created=(now or datetime.now(UTC)).isoformat(timespec="seconds"),
        format=found.name,
        tool=found.tool,
        file=path.name,
        sha256=document.sha256,
        arm=asked.arm,
        k=k,
        conditions=reading.conditions,
        meanings=tuple(found.used(reading)),
        rows=tuple(reading.rows),
        refused=tuple(dict.fromkeys(reading.refused)),
        notes=tuple(reading.notes),
    )


def _longest(asked: Asked, reading: Reading, place: str) -> int | None:
    """The longest draft, from the file or the command line; they must not contradict each other."""
    if asked.k is not None and reading.k is not None and asked.k != reading.k:
        raise UsageError(f"{place}: has {reading.k} draft positions, not {asked.k}", "correct --k")
    return asked.k if reading.k is None else reading.k


def _refuse_impossible(reading: Reading, k: int | None, place: str) -> None:
    for row in reading.rows:
        value = row.value if row.value is not None else row.low
        if value is None:
            continue
        if row.metric in LENGTHS and k is not None and value > (k + 1) * (1 + CLOSE):
            raise ResultError(
                f"{place}: {row.metric} = {value:g} with drafts of at most {k} tokens, which "
                f"give at most {k + 1} per step",
                "correct --k (the longest path, for trees), or import what the tool wrote",
            )
        if row.metric in ("accept_rate", "accept_pos") and value > 1 + CLOSE:
            raise ResultError(
                f"{place}: {row.field} makes {row.metric} = {value:g}, above 1",
                "import what the tool wrote",
            )
