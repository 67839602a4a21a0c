"""Prints the checks of a gate on a console or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.text import Text

from specbench.cli.summary import console_of
from specbench.report.console import grid_table
from specbench.report.gated import gate_grid, gate_markdown, heading
from specbench.results.gate.gate import Gated

WIDTH = 160
"""Columns off a terminal."""


def write_gated(found: Sequence[Gated], form: str) -> None:
    """One table per pair of arms, below what it came to."""
    if form == "md":
        click.echo(gate_markdown(found))
        return
    console = console_of(WIDTH)
    for place, one in enumerate(found):
        if place:
            console.print()
        console.print(Text(heading(one), style="bold"))
        table = gate_grid(one)
        console.print(grid_table(table))
        for line in table.remarks:
            console.print(Text(line))
