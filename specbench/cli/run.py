"""`specbench run`: measure an experiment and show its table."""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from specbench.cli.errors import INTERRUPTED
from specbench.cli.experiment_flags import experiment_options
from specbench.cli.plan import show_plan
from specbench.cli.progress import RunProgress
from specbench.cli.rows import format_options
from specbench.cli.scoring import require_sandbox, score_option
from specbench.cli.study import StudyCall, refuse_for_study
from specbench.cli.summary import exit_code, write_summary
from specbench.errors import UsageError
from specbench.experiment.analyse import analyse
from specbench.experiment.following import follow, is_follower
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.prepare import prepare
from specbench.experiment.session import Session
from specbench.results.read import find_run
from specbench.results.store import RunFolder
from specbench.results.study import find_study

UNITS = {"s": 1, "m": 60, "h": 3600}


def seconds(text: str | None) -> float | None:
    """A duration such as ``45m``, ``2h`` or ``90s`` in seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"--budget {text}: not a duration", "write for example 45m, 2h or 90s")
    return float(found[1]) * UNITS[found[2]]


@click.command()
@click.argument("experiment", required=False)
@experiment_options()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of runs.",
)
@click.option("--resume", metavar="RUN", help="Continue a run: folder, run id or 'last'.")
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and stop.")
@click.option("--budget", metavar="TIME", help="Fewer prompts, to end within 45m, 2h, 90s.")
@click.option("--yes", is_flag=True, help="Do not ask before a long run.")
@score_option
@format_options
def run(
    experiment: str | None,
    settings: tuple[str, ...],
    out: Path,
    resume: str | None,
    plan_only: bool,
    budget: str | None,
    yes: bool,
    score: tuple[str, ...],
    form: str,
    **flags: Any,
) -> int:
    """Run EXPERIMENT: a built-in name, a .toml file, or nothing but flags.

    The plain arm is always measured beside the others, on the same prompts, in alternation. An
    experiment with a [study] table is run once for each of its values, into one folder.
    """
    budget_s = seconds(budget)
    given = Flags(**{f.name: flags[f.name] for f in fields(Flags)})
    study = find_study(resume, out) if resume is not None else None
    old = find_run(resume, out) if resume is not None and study is None else None
    if old is not None and budget_s is not None:
        raise UsageError("--budget cannot shorten a run that is resumed", "leave it out")
    begun = study or old
    source = experiment if begun is None or experiment else str(begun.experiment)
    loaded = load_experiment(source, given, settings)
    # The program by name: where it is installed says who runs it, not what was run.
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    ask, execute = not yes and sys.stdin.isatty(), "code" in score
    if study is not None or loaded.experiment.study is not None:
        refuse_for_study(loaded, budget_s, old)
        call = StudyCall(loaded, out, study, command, ask, execute, form)
        if not plan_only and execute:
            require_sandbox()
        return call.plan() if plan_only else call.run()
    prepared = prepare(loaded)
    if is_follower(prepared):
        if not plan_only:
            follow(prepared)
        return 0
    session = Session(prepared, out, resume=old, budget_s=budget_s, command=command)
    if plan_only:
        show_plan(session, form)
        return 0
    unfinished = session.check()
    if execute:
        require_sandbox()
    if not unfinished:
        assert old is not None
        click.echo(f"{old.path} is finished: nothing to resume", err=True)
        write_summary(analyse(old, execute=execute), old, form)
        return 0
    return _measure(session, form, ask, execute)


def _measure(session: Session, form: str, ask: bool, execute: bool) -> int:
    with RunProgress(ask) as progress:
        try:
            folder = session.run(progress.hooks())
        except (KeyboardInterrupt, click.Abort):
            _say_how_to_resume(progress.folder)
            return INTERRUPTED
    summary = analyse(folder, execute=execute)
    write_summary(summary, folder, form)
    if exit_code(summary):
        click.echo(f"not every request was done; specbench run --resume {folder.path}", err=True)
    return exit_code(summary)


def _say_how_to_resume(folder: RunFolder | None) -> None:
    if folder is None:
        click.echo("interrupted before the first request; nothing was written", err=True)
    else:
        click.echo(
            f"interrupted; what was finished is in {folder.path}\n"
            f"continue with: specbench run --resume {folder.path}",
            err=True,
        )
