"""The run of `specbench gate --paired`: two arms of an experiment, measured as long as needed."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from specbench.cli.progress import RunProgress
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.paired import Referee, two_arms
from specbench.experiment.session import Session
from specbench.results.gate.gate import Gated
from specbench.results.gate.rules import GateRules


def run_paired(
    experiment: str,
    base: str,
    new: str,
    rules: GateRules,
    max_minutes: float,
    settings: tuple[str, ...],
    out: Path,
) -> Gated:
    """Measure both arms and plain in alternation until the gate is decided or time is over.

    Args:
        settings: ``KEY=VALUE`` of the experiment, as of `specbench run`.

    Raises:
        KeyboardInterrupt: what was measured is on disk; how to go on was said.
    """
    prepared = two_arms(load_experiment(experiment, Flags(), settings), base, new)
    referee = Referee(prepared, base, new, rules, 60 * max_minutes)
    session = Session(prepared, out, command=[Path(sys.argv[0]).name, *sys.argv[1:]])
    session.check()
    with RunProgress(ask=False) as progress:
        try:
            folder = session.run(referee.hooks(progress.hooks()))
        except (KeyboardInterrupt, click.Abort):
            if progress.folder is not None:
                click.echo(
                    f"continue with: specbench run --resume {progress.folder.path}", err=True
                )
            raise
    return referee.gated(folder)
