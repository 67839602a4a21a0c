"""`specbench show`: the table of a run, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options
from specbench.cli.summary import write_summary
from specbench.results.read import find_run
from specbench.results.summary import read_summary


@click.command()
@click.argument("run")
@out_option
@format_options
def show(run: str, out: Path, form: str) -> None:
    """Show the table of RUN: a folder, a run id, or 'last'.

    A run that was interrupted before its summary was written is summarised from its traces.
    """
    folder = find_run(run, out)
    if folder.summary_json.exists():
        summary = read_summary(folder)
    else:
        from specbench.experiment.analyse import analyse

        summary = analyse(folder, write=False)
    write_summary(summary, folder, form)
