"""`specbench run` of studies: several runs of one experiment, one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from specbench.cli.errors import INTERRUPTED
from specbench.cli.plan import plan_row, show_plan
from specbench.cli.progress import RunProgress
from specbench.cli.rows import write
from specbench.cli.study_table import write_study
from specbench.errors import UsageError
from specbench.experiment.analyse import analyse
from specbench.experiment.load import Loaded
from specbench.experiment.prepare import Prepared
from specbench.experiment.session import Session
from specbench.experiment.study import begin_study, member_experiments, refuse_other_study
from specbench.experiment.study_analysis import analyse_study
from specbench.results.store import RunFolder
from specbench.results.study import StudyFolder


@dataclass(frozen=True, slots=True)
class StudyCall:
    """One call of ``specbench run`` on a study.

    Attributes:
        out: the folder of runs and studies.
        old: the study that is continued; None for a new one.
        command: the command line, for the manifests.
        ask: whether to ask before a long run.
        execute: whether model-written code is run to be scored.
        form: how the table is printed.
    """

    loaded: Loaded
    out: Path
    old: StudyFolder | None
    command: Sequence[str]
    ask: bool
    execute: bool
    form: str

    def plan(self) -> int:
        """Print what every run would be."""
        members = self._members()
        key = self._key
        if self.form != "console":
            rows = [
                {key: value, **plan_row(Session(prepared, self.out))}
                for value, prepared in members.items()
            ]
            write(rows, self.form)
            return 0
        costs = []
        for place, (value, prepared) in enumerate(members.items(), start=1):
            session = Session(prepared, self.out)
            click.echo(f"run {place} of {len(members)}: {key} = {value}")
            show_plan(session, self.form)
            costs.append(session.plan())
        click.echo(
            f"{len(costs)} runs together: {sum(cost.requests for cost in costs)} requests, up to "
            f"{sum(cost.tokens for cost in costs)} tokens, about "
            f"{sum(cost.minutes for cost in costs):.1f} minutes"
        )
        return 0

    def run(self) -> int:
        """Run what is left of the study and print its table; returns the exit code."""
        members = self._members()
        if self.old is None:
            for prepared in members.values():
                Session(prepared, self.out).check()
            folder = begin_study(self.loaded, self.out)
        else:
            folder = self.old
            refuse_other_study(folder, self.loaded.experiment)
        done = self._run(folder, members)
        summary = analyse_study(folder)
        write_study(summary, folder, self.form)
        skipped = sum(member.skipped for member in summary.members)
        if not (done and summary.complete):
            click.echo(f"not every request was done; {_resume(folder)}", err=True)
        elif skipped:
            click.echo(f"{skipped} requests were skipped; the runs say why", err=True)
        if not done:
            return INTERRUPTED
        return 0 if summary.complete and not skipped else 1

    @property
    def _key(self) -> str:
        study = self.loaded.experiment.study
        assert study is not None
        return study.key

    def _members(self) -> Mapping[str, Prepared]:
        return member_experiments(self.loaded)

    def _run(self, folder: StudyFolder, members: Mapping[str, Prepared]) -> bool:
        """Run members one after the other; False where that was interrupted."""
        begun = folder.runs(self._key)
        sessions = {
            value: Session(prepared, folder.path, begun.get(value), command=self.command)
            for value, prepared in members.items()
        }
        left = {value: session for value, session in sessions.items() if session.check()}
        ask = self.ask
        for value, session in left.items():
            place = list(sessions).index(value) + 1
            click.echo(f"run {place} of {len(sessions)}: {self._key} = {value}", err=True)
            with RunProgress(ask) as progress:
                try:
                    run = session.run(progress.hooks())
                except (KeyboardInterrupt, click.Abort):
                    click.echo(f"interrupted; what was finished is in {folder.path}", err=True)
                    return False
            analyse(run, execute=self.execute)
            # Whoever said yes to the first run of a study meant the study.
            ask = False
        return True


def _resume(folder: StudyFolder) -> str:
    return f"specbench run --resume {folder.path}"


def refuse_for_study(loaded: Loaded, budget_s: float | None, old: RunFolder | None) -> None:
    """Refuse what cannot be asked of a study.

    Raises:
        UsageError: a time limit, which would give its runs different prompts, or a run that is to
            be continued as a study.
    """
    if budget_s is not None:
        raise UsageError(
            "--budget with a study: its runs must answer the same prompts",
            "give --limit, the prompts per suite of every run",
        )
    if old is not None:
        raise UsageError(
            f"{old.path} is one run, and experiment {loaded.experiment.name} is a study",
            "leave the experiment out, or name the folder of a study",
        )
