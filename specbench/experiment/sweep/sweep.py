"""A sweep as it goes on: which step is next at a load, its session, and what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomli_w

from specbench.errors import UsageError
from specbench.experiment.analyse import analyse
from specbench.experiment.load import Flags, Loaded, load_experiment
from specbench.experiment.prepare import Prepared, prepare
from specbench.experiment.session import Session
from specbench.experiment.sweep.asked import alike, scouts
from specbench.experiment.sweep.steps import choice, prepare_step
from specbench.experiment.sweep.timing import confirm_limit, first_budget, out_of_time
from specbench.results.store import RunFolder, write_atomic
from specbench.results.sweep.course import (
    CONFIRM,
    RUNG,
    Course,
    Setting,
    Step,
    course,
    first_limit,
    ladder,
)
from specbench.results.sweep.measured import Measured
from specbench.results.sweep.summary import (
    Asked,
    SweepFolder,
    SweepSummary,
    create_sweep,
    read_sweep,
    sweep_text,
)
from specbench.stats.bootstrap import FEWEST_UNITS


@dataclass
class Sweep:
    """A sweep on disk.

    Args:
        folder: its files.
        loaded: its experiment.
        state: what it was asked for, and what was noted while it went on.
        command: the command line, for the manifests of its runs.
    """

    folder: SweepFolder
    loaded: Loaded
    state: SweepSummary
    command: Sequence[str] = ()
    _settings: dict[int, Setting] = field(default_factory=dict)
    _seen: dict[Path, Measured] = field(default_factory=dict)

    @classmethod
    def begin(cls, loaded: Loaded, asked: Asked, path: Path, command: Sequence[str] = ()) -> Sweep:
        """A new sweep; everything that can be checked is checked before its folder is made.

        Raises:
            UsageError, PrerequisiteError: as ``specbench run``, a load that no suite can make, or
                a folder that is there.
        """
        new = cls._of(loaded, asked, path, command)
        new.check()
        resolved = tomli_w.dumps(loaded.experiment.resolved())
        create_sweep(path, new.state, loaded.passed, resolved)
        return new

    @classmethod
    def planned(cls, loaded: Loaded, asked: Asked, path: Path) -> dict[int, Setting]:
        """What would be measured, by load; errors as ``begin``."""
        new = cls._of(loaded, asked, path, ())
        new.check()
        return {load: new.setting(load) for load in asked.loads}

    @classmethod
    def _of(cls, loaded: Loaded, asked: Asked, path: Path, command: Sequence[str]) -> Sweep:
        experiment = loaded.experiment
        state = SweepSummary(
            sweep=path.name,
            title=experiment.title or experiment.name,
            target=experiment.target.model,
            asked=asked,
            temperature=experiment.workload.temperatures[0],
        )
        return cls(SweepFolder(path), loaded, state, command)

    @classmethod
    def open(cls, folder: SweepFolder, command: Sequence[str] = ()) -> Sweep:
        """A sweep that has begun, to be continued or read."""
        loaded = load_experiment(str(folder.experiment), Flags())
        return cls(folder, loaded, read_sweep(folder), command)

    def check(self) -> None:
        """Check every candidate at every load, and both splits, as far as that needs no model."""
        for load in self.state.asked.loads:
            setting = self.setting(load)
            first = Step(RUNG, 1, setting.candidates, setting.ladder[0])
            last = replace(first, kind=CONFIRM, number=0, limit=None)
            for step in (first, last):
                prepared = prepare_step(self.loaded, load, step)
                Session(prepared, self.folder.path.parent).check()
                _refuse_thin(prepared, load)

    def setting(self, load: int) -> Setting:
        """What is asked of a load."""
        if load not in self._settings:
            asked = self.state.asked
            everybody = Step(RUNG, 1, asked.candidates, None)
            selection = prepare_step(self.loaded, load, everybody).selection
            sizes = [len(prompts) for prompts in selection.values()]
            first = first_limit(asked.prompts, load, sizes, FEWEST_UNITS)
            family = scouts(asked.candidates, alike(self.loaded.experiment))
            self._settings[load] = Setting(
                asked.candidates,
                family if asked.predict else (),
                ladder(first, max(sizes)),
                self.loaded.experiment.workload.limit,
            )
        return self._settings[load]

    def measured(self, load: int) -> dict[str, Measured]:
        """Folder of a step -> its run, of those that are done."""
        names = ["scout", *(f"rung-{n}" for n in range(1, len(self.setting(load).ladder) + 1))]
        found = {}
        for name in (*names, CONFIRM):
            run = self.folder.run(load, name)
            if run is not None and (seen := self._done(run)) is not None:
                found[name] = seen
        return found

    def _done(self, run: RunFolder) -> Measured | None:
        """A run every request of which has ended, well or not; what failed counts as that."""
        if run.path not in self._seen:
            seen = Measured(run, self.state.asked.objectives, alike(self.loaded.experiment))
            recorded = seen.recorded
            if not recorded.finished and len(recorded.traces) < recorded.manifest.planned:
                return None
            if not (run.summary_json.exists() and run.items.exists()):
                analyse(run)
            self._seen[run.path] = seen
        return self._seen[run.path]

    def course(self, load: int) -> Course:
        """What was decided at a load, and what is next."""
        state = self.state
        return course(
            self.setting(load),
            self.measured(load),
            state.ended.get(load, ""),
            state.confirm.get(load),
        )

    def next(self, load: int) -> Step | None:
        """The next step at a load; None where there is none. Ends a race whose time is over."""
        found = self.course(load)
        if found.next is not None and found.next.kind == RUNG:
            why = out_of_time(self.state, load, found.next, self._done_steps(load))
            if why:
                self._note(ended={**self.state.ended, load: why})
                found = self.course(load)
        if found.next is not None and found.next.kind == CONFIRM and load not in self.state.confirm:
            limit = confirm_limit(self.state, load, found.next, self._done_steps(load))
            if limit is not None:
                self._note(confirm={**self.state.confirm, load: limit})
                found = self.course(load)
        return found.next

    def _done_steps(self, load: int) -> dict[str, int]:
        """Folder of a finished step -> arms times prompts per suite of its run."""
        return {
            name: len(seen.manifest.arms) * max(suite.items for suite in seen.manifest.suites)
            for name, seen in self.measured(load).items()
        }

    def session(self, load: int, step: Step) -> Session:
        """What runs a step, from its beginning or from where it was interrupted."""
        place, old = self.folder.place(load, step.folder), self.folder.run(load, step.folder)
        if old is not None:
            # Its own file: what time has changed since is not to change what it measures.
            prepared = prepare(load_experiment(str(old.experiment), Flags()))
        else:
            prepared = prepare_step(self.loaded, load, step, self.state.sweep)
        facts, budget = choice(self.state.sweep, load, step), None
        if old is None and step.kind != CONFIRM and not self._done_steps(load):
            budget = first_budget(self.state, load)
        return Session(
            prepared,
            place,
            resume=old,
            budget_s=budget,
            refuse=False,
            command=self.command,
            choice=facts,
        )

    def took(self, load: int, step: Step, seconds: float) -> None:
        """Note the time that one call spent on a step, finished or not."""
        name = f"load-{load}/{step.folder}"
        before = self.state.seconds.get(name, 0.0)
        self._note(seconds={**self.state.seconds, name: before + seconds})

    def _note(self, **changes: object) -> None:
        self.state = replace(self.state, **changes)  # type: ignore[arg-type]
        write_atomic(self.folder.document, sweep_text(self.state))


def _refuse_thin(prepared: Prepared, load: int) -> None:
    """Refuse a load that no suite has prompts for: it would be measured at another one."""
    if prepared.largest < load:
        split = next(iter(prepared.splits.values()))
        raise UsageError(
            f"--load {load}: the largest suite has {prepared.largest} prompts in split {split}, so "
            f"that never {load} requests run at a time",
            "take suites with more prompts, raise --limit, or leave this load out",
        )
