"""Rows that are not those of the set that was named, but may be those of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.errors import UsageError
from specbench.suites.definition import Definition, definition, public_names
from specbench.suites.findings import FieldMissing, RowError
from specbench.suites.mapping import fields_read, mapped_row
from specbench.suites.schema import read_row

TRIED = 20
"""Rows on which another set's mapping must work to be named."""


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that cannot be used: its place from 1, the row, and why."""

    ordinal: int
    row: Mapping[str, object]
    error: RowError

    def __str__(self) -> str:
        return f"row {self.ordinal}: {self.error}"


def refuse_other_set(found: Definition, bad: Sequence[Bad]) -> None:
    """Say it once where all rows lack the same field, and which sets have rows like these.

    Raises:
        UsageError: all rows lack the same field; else nothing happens.
    """
    missing = {b.error.field if isinstance(b.error, FieldMissing) else None for b in bad}
    if len(missing) != 1 or None in missing:
        return
    alike = sets_like([b.row for b in bad[:TRIED]])
    raise UsageError(
        f"{found.name}: none of the {len(bad)} rows can be used: {bad[0].error}",
        f"looks like {' or '.join(alike)}; type: specbench suites fetch {alike[0]} --file FILE"
        if alike
        else f"a row of this set has {', '.join(sorted(fields_read(found)))}",
    )


def sets_like(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Public sets of one file whose mapping works on all these rows, best first.

    The best one reads most of the fields that the rows have.
    """
    fields = {key for row in rows for key in row}
    fitting = [d for d in map(definition, public_names()) if d.source.join is None]
    fitting = [d for d in fitting if all(_fits(d, row) for row in rows)]
    fitting.sort(key=lambda d: (-len(fields & fields_read(d)), d.name))
    return [d.name for d in fitting]


def _fits(found: Definition, row: Mapping[str, object]) -> bool:
    try:
        read_row(mapped_row(found, row, 1), found.name, None)
    except RowError:
        return False
    return True
