"""One call of ``specbench run``: check, load the engine, write the manifest, measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from specbench import catalog
from specbench.core.manifest import RecordId, digest, settled
from specbench.core.request import Request
from specbench.core.trace import Trace
from specbench.engines.protocol import Engine, EngineFactory
from specbench.experiment.manifest import build_manifest
from specbench.experiment.other_targets import other_targets
from specbench.experiment.prepare import Prepared
from specbench.experiment.room import Room, require_room
from specbench.experiment.schema import check
from specbench.experiment.server_arms import require_installed
from specbench.experiment.settings import engine_settings
from specbench.measure.caches import first_turns
from specbench.measure.calibrate import (
    Calibration,
    calibrate,
    warm_start,
    warmup_requests,
)
from specbench.measure.clock import monotonic
from specbench.measure.estimate import (
    FEWEST_ITEMS,
    Estimate,
    Speed,
    assumed_speed,
    estimate,
    fit_budget,
)
from specbench.measure.limit import find_limit
from specbench.measure.requests import check_prompts
from specbench.measure.runner import Outcome, Runner
from specbench.measure.stages import open_stages, server_starts
from specbench.measure.step_times import time_steps
from specbench.results.read import Recorded
from specbench.results.resume import refuse_changes, refuse_other_identity, reopen
from specbench.results.store import (
    RunFolder,
    create_run,
    new_run_id,
    probe,
)
from specbench.results.writer import TraceWriter, begin_traces

Begun = Mapping[str, Mapping[str, object]]
"""What ``Engine.begin`` said of each server that it started."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a caller hears while a run goes on.

    Attributes:
        note: a line for the reader.
        begin: the run's folder, records to come, and the estimate, before the first request.
        advance: each new record.
        enough: asked between units: why to measure no further, or empty. The run then stands as
            one that was stopped, and can be continued.
    """

    note: Callable[[str], None] = lambda text: None
    begin: Callable[[RunFolder, int, Estimate], None] = lambda folder, total, cost: None
    advance: Callable[[Trace], None] = lambda trace: None
    enough: Callable[[], str] = lambda: ""


@dataclass(slots=True)
class Session:
    """One call of ``specbench run``.

    Attributes:
        out: the folder of runs.
        resume: the run that is continued; None for a new one.
        budget_s: time to stay within, in seconds; None = no limit.
        refuse: whether a budget that is too small for the fewest prompts ends the call; else they
            are measured all the same.
        command: the command line, for the manifest.
        choice: how the arms' K came to be what they are, for the manifest.
        room: memory that is needed and there is, after ``plan`` or ``check``; None where nothing
            loads here or nothing is known.
    """

    prepared: Prepared
    out: Path
    resume: RunFolder | None = None
    budget_s: float | None = None
    refuse: bool = True
    command: Sequence[str] = ()
    choice: Mapping[str, object] = field(default_factory=dict)
    room: Room | None = field(default=None, init=False)
    _recorded: Recorded | None = field(default=None, init=False)

    def plan(self) -> Estimate:
        """The estimate before anything was measured; a budget is applied first.

        Raises:
            PrerequisiteError: an engine whose servers are to be started is not installed, a device
                that cannot be used, or one with too little memory.
        """
        self._require_engine()
        speed = assumed_speed(self.prepared.experiment.target.device)
        if self.budget_s is not None:
            return self._fit(speed)[1]
        return self._cost(self.prepared.largest, speed)

    def check(self) -> bool:
        """Whether anything is left to do; all checks of files, before the engine loads.

        Raises:
            UsageError: results cannot be written, or the resumed run had other settings.
            PrerequisiteError: as ``plan``, where anything is left to do.
        """
        if self.resume is None:
            self._require_engine()
            probe(self.out)
            return True
        probe(self.resume.path)
        self._recorded = reopen(self.resume)
        manifest = self._recorded.manifest
        new = self.prepared.experiment.resolved()
        # A run from before a key existed had that key's default.
        old = check(manifest.experiment, f"experiment of run {manifest.run}").resolved()
        refuse_changes(old, new, manifest.run, "settings")
        if self._recorded.finished:
            return False
        self._require_engine()
        return True

    def _require_engine(self) -> None:
        if self.prepared.experiment.on_server:
            require_installed(self.prepared.arms)
        else:
            self.room = require_room(self.prepared)

    def run(self, hooks: Hooks) -> RunFolder:
        """Load, warm up, write the manifest, measure. Ctrl-C leaves a run that can be resumed."""
        hooks.note(f"loading {self.prepared.experiment.target.model}")
        engine = self._open()
        try:
            rendered = check_prompts(engine, self.prepared.selection)
            begun, calibration = self._begin(engine, hooks)
            for line in other_targets(engine.describe()):
                hooks.note(line)
            if self.budget_s is not None and self.resume is None:
                self._shrink(calibration, hooks)
            folder = self._folder(engine, calibration, rendered.template)
            self._measure(engine, folder, begun, calibration, hooks)
        finally:
            engine.close()
        return folder

    def _open(self) -> Engine:
        experiment = self.prepared.experiment
        factory = cast(EngineFactory, catalog.resolve("engines", experiment.engine))
        return factory(engine_settings(experiment), self.prepared.arms)

    def _begin(self, engine: Engine, hooks: Hooks) -> tuple[Begun | None, Calibration]:
        """Start what lives together and warm it up; what lives apart is started when it runs."""
        prepared = self.prepared
        if not prepared.together:
            hooks.note("each server is started and warmed up when it runs")
            return None, Calibration({}, assumed_speed(prepared.experiment.target.device))
        if prepared.started:
            hooks.note(f"starting {len(prepared.started)} servers")
        waiting = open_stages(prepared.stages(), _outcomes(self._recorded))
        begun = engine.begin(prepared.arm_names, waiting[0].index if waiting else 0)
        hooks.note("warming up")
        requests = self._warmup_requests(engine)
        names = prepared.arm_names
        # A server that cannot answer ends its arm, not the run.
        spare = bool(prepared.started)
        calibration = calibrate(
            engine, prepared.conditions, names, requests, monotonic, spare=spare
        )
        self._fill_caches(engine, [name for name in names if name not in calibration.failed])
        return begun, self._with_steps(engine, calibration, hooks)

    def _with_steps(self, engine: Engine, calibration: Calibration, hooks: Hooks) -> Calibration:
        """Time some steps of every arm, and what they read; a resumed run keeps its manifest's."""
        if self.resume is not None or not calibration.ticks:
            return calibration
        hooks.note("timing some steps of every arm")
        prepared = self.prepared
        arms = {arm.name: 0 if arm.plain else arm.k for arm in prepared.arms}
        prompts = prepared.warmup_prompts()
        measured = {(name, p.id) for name, chosen in prepared.selection.items() for p in chosen}
        other = not any((name, p.id) in measured for name, rest in prompts.items() for p in rest)
        steps = time_steps(engine, prepared.conditions, arms, prompts, other_prompts=other)
        return replace(calibration, steps=steps, limit=find_limit(engine))

    def _warm(self, engine: Engine, arm: str) -> Mapping[str, object]:
        """Warm up an arm that was just started."""
        requests = self._warmup_requests(engine)
        warmed = warm_start(engine, self.prepared.conditions, arm, requests, monotonic)
        self._fill_caches(engine, [arm])
        return warmed

    def _fill_caches(self, engine: Engine, arms: Sequence[str]) -> None:
        """Send every first turn once where prompts are to be measured from a warm prefix cache."""
        if self.prepared.experiment.server.prefix_cache != "warm":
            return
        requests = first_turns(engine, self.prepared.conditions, self.prepared.selection)
        for arm in arms:
            engine.warm_up(arm, requests, 1)

    def _warmup_requests(self, engine: Engine) -> list[Request]:
        conditions = self.prepared.conditions
        return warmup_requests(
            engine, conditions, self.prepared.warmup_prompts()
        ) or warmup_requests(engine, conditions, self.prepared.selection)

    def _cost(
        self, limit: int | None, speed: Speed, done: Mapping[RecordId, Outcome] | None = None
    ) -> Estimate:
        prepared, kept = self.prepared, done or {}
        stages = prepared.stages(limit)
        units = [unit for stage in stages for unit in stage.units]
        starts = server_starts(stages, prepared.started, kept)
        return estimate(units, prepared.conditions.max_new_tokens, speed, kept, starts=starts)

    def _fit(self, speed: Speed) -> tuple[int, Estimate]:
        assert self.budget_s is not None
        return fit_budget(
            self.budget_s,
            self.prepared.largest,
            lambda limit: self._cost(limit, speed),
            # With fewer prompts than requests at a time the load would be another one.
            fewest=max(FEWEST_ITEMS, self.prepared.starts, *self.prepared.conditions.concurrency),
            refuse=self.refuse,
        )

    def _shrink(self, calibration: Calibration, hooks: Hooks) -> None:
        limit, _ = self._fit(calibration.speed)
        if limit < self.prepared.largest:
            hooks.note(
                f"to stay in time: at most {limit} prompts per suite instead of "
                f"{self.prepared.largest}"
            )
            self.prepared = self.prepared.limited(limit)

    def _folder(self, engine: Engine, calibration: Calibration, template: str) -> RunFolder:
        if self.resume is not None and self._recorded is not None:
            old = self._recorded.manifest
            new = build_manifest(
                self.prepared, engine, calibration, template, old.run, self.command
            )
            refuse_other_identity(old, new)
            self.resume.drop_derived()
            return self.resume
        run = self._new_id()
        manifest = build_manifest(
            self.prepared, engine, calibration, template, run, self.command, self.choice
        )
        resolved = self.prepared.resolved_toml()
        folder = create_run(self.out, manifest, self.prepared.passed, resolved)
        begin_traces(folder, run)
        return folder

    def _new_id(self) -> str:
        """An id that no run has yet: they are named by the second and by what they run."""
        settings = digest(self.prepared.experiment.resolved())
        run = new_run_id(settings)
        if (self.out / run).exists():
            time.sleep(1)
            run = new_run_id(settings)
        return run

    def _measure(
        self,
        engine: Engine,
        folder: RunFolder,
        begun: Begun | None,
        calibration: Calibration,
        hooks: Hooks,
    ) -> None:
        recorded = self._recorded
        done = _outcomes(recorded)
        cost = self._cost(None, calibration.speed, done)
        writer = TraceWriter(folder, recorded.next_tick if recorded else 0)
        try:
            if recorded is not None:
                writer.resumed()
            hooks.begin(folder, cost.requests, cost)
            runner = Runner(
                engine=engine,
                conditions=self.prepared.conditions,
                sink=writer,
                done=done,
                resumed=recorded.resumes + 1 if recorded else 0,
                on_record=hooks.advance,
                warm=lambda arm: self._warm(engine, arm),
                enough=hooks.enough,
            )
            runner.run_stages(self.prepared.stages(), begun)
            if runner.stopped:
                writer.stopped(runner.stopped)
            for arm in self.prepared.arm_names:
                writer.memory(arm, engine.memory(arm))
        finally:
            writer.close()


def _outcomes(recorded: Recorded | None) -> Mapping[RecordId, Outcome]:
    if recorded is None:
        return {}
    return {
        record: Outcome(trace.ok, trace.text)
        for record, trace in recorded.traces.items()
        if settled(trace)
    }
