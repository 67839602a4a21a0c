"""Puts the runs of a sweep together: standings, contexts, confirmations, recommendations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from specbench.core.arm import PLAIN
from specbench.experiment.sweep.steps import CHOOSING, CONFIRMING
from specbench.experiment.sweep.sweep import Sweep
from specbench.report.sweep import sweep_csv, sweep_markdown
from specbench.results.fidelity import LOSSY
from specbench.results.store import write_atomic
from specbench.results.summary import Figure, figure_of
from specbench.results.sweep.candidates import WITHOUT, Candidate
from specbench.results.sweep.course import CONFIRM, SCOUT, Course
from specbench.results.sweep.halving import Decision
from specbench.results.sweep.measured import Measured
from specbench.results.sweep.positions import positions
from specbench.results.sweep.summary import (
    Confirmed,
    InContext,
    Recommended,
    Standing,
    StepDone,
    SweepSummary,
    sweep_text,
)
from specbench.results.sweep.verdict import recommend, stops_paying
from specbench.results.verdict import EXPLAINED


def analyse_sweep(sweep: Sweep, *, write: bool = True) -> SweepSummary:
    """Put together what has been measured so far.

    Args:
        write: renew sweep.json, sweep.md and sweep.csv.
    """
    loads = [_Load(sweep, load) for load in sweep.state.asked.loads]
    begun = [load for load in loads if load.seen]
    answers = [answer for load in loads if (answer := load.recommended()) is not None]
    complete = len(answers) == len(loads)
    summary = replace(
        sweep.state,
        complete=complete,
        device=next((load.device for load in begun), ""),
        steps=tuple(step for load in begun for step in load.steps()),
        standings=tuple(one for load in begun for one in load.standings()),
        contexts=tuple(one for load in begun for one in load.contexts()),
        confirmed=tuple(one for load in begun if (one := load.confirmed()) is not None),
        recommended=tuple(answers),
        stops=stops_paying(answers) if complete else None,
        warnings=tuple(dict.fromkeys(line for load in begun for line in load.warnings())),
    )
    if write:
        write_atomic(sweep.folder.document, sweep_text(summary))
        write_atomic(sweep.folder.page, sweep_markdown(summary))
        write_atomic(sweep.folder.table, sweep_csv(summary))
    return summary


class _Load:
    """One load of a sweep, as far as it has come."""

    def __init__(self, sweep: Sweep, load: int) -> None:
        self.load = load
        self.folder = sweep.folder
        self.seen = sweep.measured(load)
        self.course: Course = sweep.course(load)
        self.candidates = {one.name: one for one in (WITHOUT, *sweep.state.asked.candidates)}

    @property
    def device(self) -> str:
        """What decoded."""
        return next(iter(self.seen.values())).manifest.identity.device

    @property
    def rungs(self) -> dict[str, Measured]:
        """Runs that took part in the race."""
        return {name: seen for name, seen in self.seen.items() if name not in (SCOUT, CONFIRM)}

    def steps(self) -> Iterator[StepDone]:
        """Every run, in order, with what was decided after it."""
        decisions = dict(zip(self.rungs, self.course.decisions, strict=False))
        for name, seen in self.seen.items():
            kind, _, number = name.partition("-")
            decision = decisions.get(name, Decision("", ()))
            dropped = self.course.left_out if name == SCOUT else decision.dropped
            yield StepDone(
                load=self.load,
                kind=kind,
                number=int(number or 0),
                run=str(seen.folder.path.relative_to(self.folder.path)),
                split=CONFIRMING if kind == CONFIRM else CHOOSING,
                prompts=seen.prompts,
                arms=tuple(arm.name for arm in seen.manifest.arms),
                leader=decision.leader,
                dropped=dict(dropped),
                decided=self._why(name),
            )

    def _why(self, name: str) -> str:
        """What ended the race, where it was behind this step."""
        last = name == [*self.rungs, ""][len(self.course.decisions) - 1]
        return self.course.ending if last else ""

    def standings(self) -> Iterator[Standing]:
        """Plain and every candidate, each in the last run of the race that measured it."""
        for name, candidate in self.candidates.items():
            held = [(step, seen) for step, seen in self.seen.items() if self._holds(step, name)]
            if not held:
                yield self._unmeasured(candidate)
                continue
            step, seen = held[-1]
            yield Standing(
                self.load,
                name,
                candidate.k,
                candidate.nodes,
                step,
                seen.prompts,
                self._state(name),
                {**seen.figures(name), **self._predicted(name)},
            )

    def _holds(self, step: str, name: str) -> bool:
        arms = self.seen[step].manifest.arms
        return step != CONFIRM and any(arm.name == name for arm in arms)

    def _unmeasured(self, one: Candidate) -> Standing:
        return Standing(
            self.load,
            one.name,
            one.k,
            one.nodes,
            "",
            0,
            self._state(one.name),
            self._predicted(one.name),
        )

    def _predicted(self, name: str) -> dict[str, Figure]:
        speed = self.course.predicted.get(name)
        measured = SCOUT in self.seen and self._holds(SCOUT, name)
        return {} if speed is None or measured else {"predicted": Figure(speed, "x")}

    def _state(self, name: str) -> str:
        found = self.course
        if name in found.left_out:
            return f"not measured: {found.left_out[name]}"
        if name == found.leader:
            return f"leads ({found.ending})" if found.ending else "leads"
        for decision in found.decisions:
            if name in decision.dropped:
                return decision.dropped[name]
        return "in the race" if found.decisions else "not measured yet"

    def contexts(self) -> Iterator[InContext]:
        """The choice by length of prompts, in the last rung."""
        if not self.rungs:
            return
        seen = [*self.rungs.values()][-1]
        names = [arm.name for arm in seen.manifest.arms]
        for one in seen.contexts(names):
            yield InContext(
                self.load,
                one.context,
                one.prompts,
                one.best,
                one.decided,
                figure_of(one.times_plain),
                one.why,
            )

    def confirmed(self) -> Confirmed | None:
        """What the test split says; None where it was not asked yet."""
        seen, best = self.seen.get(CONFIRM), self.course.best
        if seen is None or best is None:
            return None
        runner = "" if self.course.runner is None else self.course.runner.name
        plain, seed = seen.figures(PLAIN), seen.manifest.seed
        figures = {
            **seen.figures(best.name),
            "plain_user": plain["tokens_per_s_user"],
            "plain_device": plain["tokens_per_s_device"],
        }
        if runner:
            figures["runner"] = figure_of(seen.against(runner, best.name).times)
        traces = seen.traces(best.name)
        windows = [
            window
            for (arm, _), held in seen.recorded.windows.items()
            if arm == best.name
            for window in held
        ]
        return Confirmed(
            load=self.load,
            run=str(seen.folder.path.relative_to(self.folder.path)),
            name=best.name,
            runner=runner,
            split=CONFIRMING,
            prompts=seen.prompts,
            figures=figures,
            p=seen.against(best.name, PLAIN).p,
            refused=seen.refused(best.name),
            plain_refused=seen.refused(PLAIN),
            guards=tuple(sorted(set(seen.row(best.name).guards) - EXPLAINED)),
            profile=positions(traces, windows, seed=seed),
        )

    def recommended(self) -> Recommended | None:
        """The answer; None while it is not known."""
        if self.course.next is not None:
            return None
        last = self.course.decisions[-1] if self.course.decisions else Decision("", ())
        reasons = [f"{name}: {why}" for name, why in last.dropped.items() if name != PLAIN]
        return recommend(self.load, self.course.best, self.confirmed(), reasons)

    def warnings(self) -> Iterator[str]:
        """What to know: rules that change the output, what the confirmation's guards say."""
        confirmed, best = self.seen.get(CONFIRM), self.course.best
        if confirmed is not None:
            if best is not None and confirmed.row(best.name).lossless == LOSSY:
                yield f"load {self.load}: the rule of {best.name} is lossy: its speed has a price"
            for line in confirmed.summary.warnings:
                yield f"load {self.load}, confirmation: {line}"
