"""Rows of named values on stdout as a console table, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

Rows = Sequence[Mapping[str, object]]


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The ``--format`` and ``--json`` options of a command that prints rows, as ``form``."""
    choices = click.Choice(list(WRITERS))
    command = click.option(
        "--json", "form", flag_value="json", type=choices, help="Same as --format json."
    )(command)
    return click.option(
        "--format", "form", type=choices, default="console", show_default=True, help="Output form."
    )(command)


def write(rows: Rows, form: str, console: Sequence[str] = ()) -> None:
    """Print rows to stdout; the columns are the union of their keys, in order of appearance.

    ``console`` names the columns that a console has room for, where that is not all of them.
    """
    if form == "console" and console:
        rows = [{key: row[key] for key in console if key in row} for row in rows]
    WRITERS[form](rows)


def simple(value: object) -> Any:
    """A value as JSON can hold it: dataclasses become objects, sets are sorted."""
    if isinstance(value, Enum):
        return simple(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: simple(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): simple(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(simple(inner) for inner in value)
    if isinstance(value, list | tuple):
        return [simple(inner) for inner in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def _cell(value: object) -> str:
    plain = simple(value)
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, dict):
        return ", ".join(f"{key}={_cell(inner)}" for key, inner in plain.items())
    if isinstance(plain, list):
        return ", ".join(map(_cell, plain))
    return "" if plain is None else str(plain)


def _columns(rows: Rows) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def _cells(rows: Rows) -> list[list[str]]:
    columns = _columns(rows)
    return [[_cell(row.get(column)) for column in columns] for row in rows]


def _console(rows: Rows) -> None:
    table = Table(box=None, pad_edge=False)
    for column in _columns(rows):
        table.add_column(column, overflow="fold")
    for cells in _cells(rows):
        table.add_row(*map(Text, cells))
    console = Console()
    if not console.is_terminal:  # one line per row, so that grep and files see whole rows
        console = Console(width=max(1, Console(width=10_000).measure(table).maximum))
    console.print(table)


def markdown(rows: Rows) -> str:
    """The rows as a Markdown table."""

    def line(cells: Sequence[str]) -> str:
        escaped = [cell.replace("|", "\\|").replace("\n", " ") for cell in cells]
        return f"| {' | '.join(escaped)} |"

    columns = _columns(rows)
    return "\n".join([line(columns), line(["---"] * len(columns)), *map(line, _cells(rows))])


def _csv(rows: Rows) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_columns(rows), *_cells(rows)])
    click.echo(text.getvalue(), nl=False)


def _json(rows: Rows) -> None:
    click.echo(json.dumps([simple(row) for row in rows], indent=2, ensure_ascii=False))


WRITERS: dict[str, Callable[[Rows], None]] = {
    "console": _console,
    "md": lambda rows: click.echo(markdown(rows)),
    "csv": _csv,
    "json": _json,
}
