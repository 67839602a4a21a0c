"""One call of `specbench sweep`: begin or continue, step by step, and print what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from specbench.cli.errors import INTERRUPTED
from specbench.cli.progress import RunProgress
from specbench.cli.rows import write
from specbench.cli.summary import console_of
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.analyse import analyse
from specbench.experiment.load import Flags, Loaded, load_experiment
from specbench.experiment.sweep.asked import candidates, objectives, whole_numbers
from specbench.experiment.sweep.emit import emitted
from specbench.experiment.sweep.steps import words
from specbench.report.page.files import write_charts
from specbench.report.sweep import SweepTable, courses, sweep_csv, sweep_markdown
from specbench.report.sweep_chart import sweep_chart
from specbench.results.sweep.course import Step
from specbench.results.sweep.summary import (
    Asked,
    SweepFolder,
    SweepSummary,
    find_sweep,
    read_sweep,
    sweep_text,
)

WIDTH = 180
"""Columns off a terminal."""


def sweep_name(given: str | None, experiment: str | None) -> str:
    """The name of a new sweep.

    Raises:
        UsageError: it would be more than the name of a folder.
    """
    if given is None:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        return f"{Path(experiment or 'flags').stem}-{moment}"
    if Path(given).name != given or given in (".", ".."):
        raise UsageError(
            f"--name {given}: not the name of a folder", "write for example --name mine"
        )
    return given


def show_sweep(name: str, out: Path, form: str, emit: str | None) -> int:
    """Print and draw a sweep from its files alone."""
    folder = find_sweep(name, out)
    summary = read_sweep(folder)
    if not summary.steps and not summary.complete:
        raise PrerequisiteError(
            f"{folder.path} has no table yet", f"go on: specbench sweep --resume {folder.path}"
        )
    return _answer(folder, summary, form, emit, draw=form == "console" and emit is None)


@dataclass
class SweepCall:
    """One call.

    Attributes:
        sweep: made by ``begin``, or opened.
        ask: whether to ask before a long run.
        form: how the table is printed.
        emit: what is printed in its place; None for the table.
    """

    loaded: Loaded
    asked: Asked
    path: Path
    command: Sequence[str]
    ask: bool
    form: str
    emit: str | None
    sweep: Any = None

    @classmethod
    def new(
        cls,
        source: str | None,
        flags: Flags,
        settings: Sequence[str],
        out: Path,
        command: Sequence[str],
        ask: bool,
        form: str,
        emit: str | None,
        **options: Any,
    ) -> SweepCall:
        """A call that begins a sweep.

        Raises:
            UsageError: an option that is no list of numbers, or what ``candidates`` refuses.
        """
        loaded = load_experiment(source, flags, settings)
        ks, nodes = (
            whole_numbers(options[name], option) if options[name] else ()
            for name, option in (("ks", "--k"), ("nodes", "--nodes"))
        )
        asked = Asked(
            loads=whole_numbers(options["loads"] or "1", "--load"),
            candidates=candidates(loaded.experiment, ks, nodes, options["arms"]),
            prompts=options["prompts"],
            minutes=options["max_minutes"],
            objectives=objectives(options["slo"]),
            predict=not options["no_predict"],
        )
        path = out / "sweeps" / options["name"]
        return cls(loaded, asked, path, command, ask, form, emit)

    @classmethod
    def again(
        cls, name: str, out: Path, command: Sequence[str], ask: bool, form: str, emit: str | None
    ) -> SweepCall:
        """A call that continues a sweep."""
        from specbench.experiment.sweep.sweep import Sweep

        folder = find_sweep(name, out)
        sweep = Sweep.open(folder, command)
        asked = sweep.state.asked
        return cls(sweep.loaded, asked, folder.path, command, ask, form, emit, sweep)

    def begin(self) -> SweepCall:
        """Make the folder of the sweep; errors as ``Sweep.begin``."""
        from specbench.experiment.sweep.sweep import Sweep

        self.sweep = Sweep.begin(self.loaded, self.asked, self.path, self.command)
        return self

    def plan(self) -> int:
        """Print what every load would be; nothing is made."""
        from specbench.experiment.sweep.sweep import Sweep

        rows = []
        for load, setting in Sweep.planned(self.loaded, self.asked, self.path).items():
            names = [one.name for one in setting.candidates]
            rows.append(
                {
                    "load": load,
                    "candidates": ["plain", *names],
                    "measured_first": [one.name for one in setting.scouts] or "all of them",
                    "dev_prompts_by_rung": list(setting.ladder),
                    "test_prompts": setting.confirm or "all",
                }
            )
        write(rows, self.form)
        return 0

    def run(self) -> int:
        """Measure what is left and print the sweep; returns the exit code."""
        done = all(self._load(load) for load in self.asked.loads)
        from specbench.experiment.sweep.analysis import analyse_sweep

        summary = analyse_sweep(self.sweep)
        if not done:
            click.echo(
                f"interrupted; what was finished is in {self.path}\n"
                f"continue with: specbench sweep --resume {self.path}",
                err=True,
            )
            return INTERRUPTED
        return _answer(self.sweep.folder, summary, self.form, self.emit)

    def _load(self, load: int) -> bool:
        """Measure one load to its end; False where that was interrupted."""
        while (step := self.sweep.next(load)) is not None:
            if not self._step(load, step):
                return False
        return True

    def _step(self, load: int, step: Step) -> bool:
        names = ", ".join(["plain", *(one.name for one in step.candidates)])
        session = self.sweep.session(load, step)
        session.check()
        prompts = sum(map(len, session.prepared.selection.values()))
        click.echo(f"load {load}, {words(step)}: {names} on {prompts} prompts", err=True)
        began = time.monotonic()
        with RunProgress(self.ask) as progress:
            try:
                run = session.run(progress.hooks())
            except (KeyboardInterrupt, click.Abort):
                return False
            finally:
                self.sweep.took(load, step, time.monotonic() - began)
        # Whoever said yes to the first run of a sweep meant the sweep.
        self.ask = False
        analyse(run)
        self._said(load, step)
        return True

    def _said(self, load: int, step: Step) -> None:
        """What was decided, as soon as it is."""
        from specbench.experiment.sweep.analysis import analyse_sweep

        summary: SweepSummary = analyse_sweep(self.sweep)
        mine = [one for one in summary.steps if (one.load, one.kind) == (load, step.kind)]
        for line in courses(summary):
            if line.startswith(f"load {load}, {mine[-1].title} "):
                click.echo(line, err=True)


def _draw(folder: SweepFolder, summary: SweepSummary) -> None:
    """Write the chart; a sweep without matplotlib is a sweep all the same."""
    try:
        paths = list(write_charts([sweep_chart(summary)], folder.path))
        click.echo(f"drawn: {', '.join(map(str, paths))}", err=True)
    except PrerequisiteError as error:
        click.echo(f"not drawn: {error}", err=True)


def _answer(
    folder: SweepFolder, summary: SweepSummary, form: str, emit: str | None, draw: bool = True
) -> int:
    """Draw and print; 1 where the sweep has not come to its end."""
    if draw:
        _draw(folder, summary)
    if emit is not None:
        experiment = load_experiment(str(folder.experiment), Flags()).experiment
        click.echo(emitted(summary, experiment, emit), nl=False)
    elif form == "json":
        click.echo(sweep_text(summary), nl=False)
    elif form == "md":
        click.echo(sweep_markdown(summary), nl=False)
    elif form == "csv":
        click.echo(sweep_csv(summary), nl=False)
    else:
        console_of(WIDTH).print(SweepTable(summary, str(folder.path)))
    return 0 if summary.complete else 1
