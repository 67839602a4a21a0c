"""`specbench rescore`: all tables of a run, made again from its traces."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options
from specbench.cli.scoring import require_sandbox, score_option
from specbench.cli.study_table import write_study
from specbench.cli.summary import write_summary
from specbench.experiment.analyse import analyse
from specbench.experiment.study_analysis import analyse_study
from specbench.results.read import find_run
from specbench.results.study import find_study, read_study


@click.command()
@click.argument("run")
@out_option
@score_option
@format_options
def rescore(run: str, out: Path, score: tuple[str, ...], form: str) -> None:
    """Rebuild items.csv, table.csv and the summary of RUN, or of every run of a study."""
    execute = "code" in score
    study = find_study(run, out)
    folders = study.runs(read_study(study).key).values() if study else [find_run(run, out)]
    if execute:
        require_sandbox()
    for folder in folders:
        summary = analyse(folder, execute=execute)
        if study is None:
            write_summary(summary, folder, form)
    if study is not None:
        write_study(analyse_study(study), study, form)
