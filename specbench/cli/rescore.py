"""`specbench rescore`: all tables of a run, made again from its traces."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options
from specbench.cli.scoring import require_sandbox, score_option
from specbench.cli.summary import write_summary
from specbench.experiment.analyse import analyse
from specbench.results.read import find_run


@click.command()
@click.argument("run")
@out_option
@score_option
@format_options
def rescore(run: str, out: Path, score: tuple[str, ...], form: str) -> None:
    """Rebuild items.csv, table.csv and the summary of RUN from traces.jsonl."""
    folder = find_run(run, out)
    if "code" in score:
        require_sandbox()
    write_summary(analyse(folder, execute="code" in score), folder, form)
