"""Prints one table per pair of arms on a console."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from specbench.cli.summary import console_of
from specbench.report.cells import Grid
from specbench.report.console import grid_table

WIDTH = 160
"""Columns off a terminal."""


def write_pairs(tables: Iterable[tuple[str, Grid]]) -> None:
    """Every table below its heading, with what to know below it."""
    console = console_of(WIDTH)
    for place, (heading, table) in enumerate(tables):
        if place:
            console.print()
        console.print(Text(heading, style="bold"))
        console.print(grid_table(table))
        for line in table.remarks:
            console.print(Text(line))
