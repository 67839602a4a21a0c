"""Prints comparisons on a console or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.text import Text

from specbench.cli.summary import console_of
from specbench.report.compared import compared_grid, heading
from specbench.report.console import grid_table
from specbench.report.markdown import table_lines
from specbench.results.compare.compare import Compared

WIDTH = 150
"""Columns off a terminal."""


def write_compared(found: Sequence[Compared], form: str) -> None:
    """One table per pair of arms, with what to know below it."""
    if form == "md":
        click.echo("\n\n".join(map(_markdown, found)))
        return
    console = console_of(WIDTH)
    for place, one in enumerate(found):
        if place:
            console.print()
        console.print(Text(heading(one), style="bold"))
        table = compared_grid(one)
        console.print(grid_table(table))
        for line in table.remarks:
            console.print(Text(line))


def _markdown(one: Compared) -> str:
    table = compared_grid(one)
    below = ["", *(f"- {line}" for line in table.remarks)] if table.remarks else []
    return "\n".join([f"### {heading(one)}", "", *table_lines(table), *below])
