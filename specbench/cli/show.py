"""`specbench show`: the table of one run or several, from their folders alone."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import assume_same_option, out_option
from specbench.cli.rows import format_options
from specbench.cli.summary import write_joint, write_summary
from specbench.errors import UsageError
from specbench.results.comparable import require_comparable
from specbench.results.read import find_imported, find_run, load_manifest
from specbench.results.store import RunFolder
from specbench.results.study import find_study
from specbench.results.summary import Summary, read_summary


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@assume_same_option
@out_option
@format_options
def show(runs: tuple[str, ...], assume_same: bool, out: Path, form: str) -> None:
    """Show the table of RUN: a folder, the id of a run or a study, an import, or 'last'.

    Several runs of one experiment, on other engines, are shown in one table. They must agree in
    all that decides what was measured; what differs is listed otherwise. What an attached server
    does not say, such as its weights, is equal only where --assume-same says so.

    A run that was interrupted before its summary was written is summarised from its traces.
    """
    if len(runs) == 1 and (study := find_study(runs[0], out)) is not None:
        from specbench.cli.study_table import show_study

        if assume_same:
            raise UsageError("--assume-same is for several runs", "name several runs, no study")
        show_study(study, form)
        return
    if len(runs) == 1 and (imported := find_imported(runs[0], out)) is not None:
        from specbench.cli.importing import write_imports
        from specbench.results.foreign.imported import read_imported

        write_imports([read_imported(imported)], form)
        return
    folders = [find_run(run, out) for run in runs]
    summaries = [_summary(folder) for folder in folders]
    if len(folders) == 1:
        if assume_same:
            raise UsageError("--assume-same is for several runs", "name another run too")
        write_summary(summaries[0], folders[0], form)
        return
    manifests = [load_manifest(folder) for folder in folders]
    taken = require_comparable(manifests, assume_same)
    write_joint(manifests, summaries, form)
    if taken:
        note = f"taken as equal, not known: {', '.join(taken)}"
        # The other forms are documents for programs.
        click.echo(f"- {note}" if form == "md" else note, err=form in ("csv", "json"))


def _summary(folder: RunFolder) -> Summary:
    if folder.summary_json.exists():
        return read_summary(folder)
    from specbench.experiment.analyse import analyse

    return analyse(folder, write=False)
