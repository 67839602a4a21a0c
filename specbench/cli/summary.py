"""Prints a run's summary to stdout as a console table, Markdown, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click
from rich.console import Console

from specbench.core.manifest import Manifest
from specbench.report.cells import grid
from specbench.report.console import WIDTH, ConsoleSummary
from specbench.report.joint import JOINT_WIDTH, JointTable, joint_grid, joint_markdown
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
        console_of().print(ConsoleSummary(summary, str(folder.path)))


def console_of(widest: int = WIDTH) -> Console:
    """A console as wide as the terminal, at most ``widest``; off a terminal as wide as that."""
    console = Console()
    # Off a terminal rich assumes 80 columns, in which no summary fits.
    width = min(console.width, widest) if console.is_terminal else widest
    return Console(width=width, highlight=False)


def write_joint(manifests: Sequence[Manifest], summaries: Sequence[Summary], form: str) -> None:
    """The table of several runs on stdout; as JSON the summaries themselves, with engines."""
    if form == "json":
        engines = [manifest.engine.get("name") for manifest in manifests]
        document = [
            {"engine": engine, **json.loads(summary_text(summary))}
            for engine, summary in zip(engines, summaries, strict=True)
        ]
        click.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    joint = joint_grid(manifests, summaries)
    if form == "md":
        click.echo(joint_markdown(joint), nl=False)
    elif form == "csv":
        click.echo(csv_text(joint.header, joint.rows), nl=False)
    else:
        console_of(JOINT_WIDTH).print(JointTable(joint))


def exit_code(summary: Summary) -> int:
    """0 only if every planned request ended by itself; skipped ones count as not done."""
    return 0 if summary.complete and not summary.skipped else 1
