"""Prints a run's summary to stdout as a console table, Markdown, CSV or JSON."""

from __future__ import annotations

import click
from rich.console import Console

from specbench.report.cells import grid
from specbench.report.console import WIDTH, ConsoleSummary
from specbench.report.markdown import markdown
from specbench.results.items import csv_text
from specbench.results.store import RunFolder
from specbench.results.summary import Summary, summary_text


def write_summary(summary: Summary, folder: RunFolder, form: str) -> None:
    """One document on stdout."""
    if form == "json":
        click.echo(summary_text(summary), nl=False)
    elif form == "md":
        click.echo(markdown(summary), nl=False)
    elif form == "csv":
        table = grid(summary)
        click.echo(csv_text(table.header, table.rows), nl=False)
    else:
        console = Console()
        # Off a terminal rich assumes 80 columns, in which no summary fits.
        width = min(console.width, WIDTH) if console.is_terminal else WIDTH
        Console(width=width, highlight=False).print(ConsoleSummary(summary, str(folder.path)))


def exit_code(summary: Summary) -> int:
    """0 only if every planned request ended by itself; skipped ones count as not done."""
    return 0 if summary.complete and not summary.skipped else 1
