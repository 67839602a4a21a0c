"""Prints a study to stdout as a console table, Markdown, CSV or JSON."""

from __future__ import annotations

import click

from specbench.cli.summary import console_of
from specbench.experiment.study_analysis import analyse_study, require_members
from specbench.report.console import WIDTH
from specbench.report.study import StudyTable, study_grid, study_markdown
from specbench.results.items import csv_text
from specbench.results.study import (
    StudyFolder,
    StudySummary,
    member_manifests,
    read_study,
    study_text,
)


def show_study(folder: StudyFolder, form: str) -> None:
    """Print a study; one that was interrupted is put together from the runs that have begun.

    Raises:
        NotComparable: its runs differ in more than its key.
    """
    summary = read_study(folder)
    if summary.complete:
        require_members(member_manifests(folder, summary), summary.key)
    else:
        summary = analyse_study(folder, write=False)
    write_study(summary, folder, form)


def write_study(summary: StudySummary, folder: StudyFolder, form: str) -> None:
    """One document on stdout."""
    if form == "json":
        click.echo(study_text(summary), nl=False)
    elif form == "md":
        click.echo(study_markdown(summary), nl=False)
    elif form == "csv":
        table = study_grid(summary, summary.rows)
        click.echo(csv_text(table.header, table.rows), nl=False)
    else:
        console_of(WIDTH).print(StudyTable(summary, str(folder.path)))
