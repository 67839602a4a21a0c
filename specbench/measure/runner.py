"""Runs a plan: arms interleaved inside each unit, every record handed on as soon as it exists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from specbench.core.arm import PLAIN
from specbench.core.full_memory import out_of_memory
from specbench.core.manifest import RecordId, turn_failed
from specbench.core.suite import Prompt
from specbench.core.trace import Finish, Granularity, Tick, Trace, Window
from specbench.engines.protocol import Engine
from specbench.errors import SpecbenchError
from specbench.measure.clock import Clock, monotonic
from specbench.measure.plan import Unit
from specbench.measure.requests import Conditions, Ready, Unsent, build_request, request_seed
from specbench.measure.stages import Stage, open_stages

Facts = Mapping[str, object]


class Sink(Protocol):
    """Where records go; each call returns when the record is safe."""

    def trace(self, trace: Trace) -> None:
        """Keep one trace."""
        ...

    def ticks(self, arm: str, unit: str, ticks: Sequence[Tick]) -> None:
        """Keep the ticks of one arm in one unit and turn."""
        ...

    def windows(self, arm: str, unit: str, windows: Sequence[Window]) -> None:
        """Keep what counters showed of one arm in one unit and turn."""
        ...

    def start(self, arm: str, start: int, facts: Facts) -> None:
        """Keep what is known of one start of an arm's server."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What later turns need of a record."""

    ok: bool
    text: str


Outcomes = dict[RecordId, Outcome]


@dataclass(slots=True)
class Runner:
    """Runs stages on an engine.

    Attributes:
        done: records of an earlier session that are kept; they are not run again.
        resumed: how many times this run had been resumed.
        on_record: called after each new record, for progress.
        warm: warms up an arm that was just begun, outside all measurements, and returns what is
            worth keeping of it; SpecbenchError where it fails.
        enough: asked before each unit: why to run no further, or empty. Between units nothing is
            torn: a run that ends there has whole batches and can be continued.
        stopped: what ``enough`` said.
    """

    engine: Engine
    conditions: Conditions
    sink: Sink
    done: Mapping[RecordId, Outcome]
    resumed: int = 0
    on_record: Callable[[Trace], None] = lambda trace: None
    clock: Clock = monotonic
    warm: Callable[[str], Facts] = lambda arm: {}
    enough: Callable[[], str] = lambda: ""
    stopped: str = field(default="", init=False)

    def run_stages(self, stages: Sequence[Stage], begun: Mapping[str, Facts] | None = None) -> None:
        """Start the servers of each stage, run what is not done yet, and stop them.

        A stage in which nothing is left to do starts nothing. A resumed stage starts its servers
        again, which is another start record of the same number.

        Args:
            begun: what ``engine.begin`` returned where the caller has begun and warmed up all
                arms of the first open stage already; it is ended here like the others.
        """
        for stage in open_stages(stages, self.done):
            if self._stop():
                return
            if stage.together:
                self._run_together(stage, begun)
            else:
                self._run_apart(stage)
            begun = None

    def run(self, units: Iterable[Unit]) -> None:
        """Run what is not done yet on arms that have begun.

        A failed request becomes a record and the run goes on.
        """
        for unit in units:
            if self._stop():
                return
            outcomes = self._known([unit])
            for turn, order in enumerate(unit.orders):
                for position, arm in enumerate(order):
                    self._run_arm(unit, turn, arm, position, outcomes)

    def _run_together(self, stage: Stage, begun: Mapping[str, Facts] | None) -> None:
        try:
            facts = self._begin(stage.arms, stage.index) if begun is None else begun
            self._note_starts(stage.index, facts)
            self.run(stage.units)
        finally:
            self.engine.end()

    def _run_apart(self, stage: Stage) -> None:
        """Each arm decodes everything before the next is started; turns of an item in order."""
        outcomes = self._known(stage.units)
        for position, arm in enumerate(stage.arms):
            if not stage.open(self.done, arm):
                continue
            try:
                self._note_starts(stage.index, self._begin((arm,), stage.index))
                for unit in stage.units:
                    if self._stop():
                        return
                    for turn in range(len(unit.orders)):
                        self._run_arm(unit, turn, arm, position, outcomes)
            finally:
                self.engine.end()

    def _stop(self) -> bool:
        self.stopped = self.stopped or self.enough()
        return bool(self.stopped)

    def _begin(self, arms: Sequence[str], start: int) -> dict[str, Facts]:
        facts: dict[str, Facts] = dict(self.engine.begin(arms, start))
        for arm in arms:
            try:
                warmed = self.warm(arm)
            except SpecbenchError as error:
                # A server that cannot answer ends its arm, not the run: its requests say why.
                warmed = {"warm_up_failed": error.message}
            if warmed:
                facts[arm] = {**facts.get(arm, {}), **warmed}
        return facts

    def _note_starts(self, start: int, facts: Mapping[str, Facts]) -> None:
        for arm, known in facts.items():
            self.sink.start(arm, start, known)

    def _known(self, units: Iterable[Unit]) -> Outcomes:
        return {
            record: self.done[record]
            for unit in units
            for record in unit.records()
            if record in self.done
        }

    def _run_arm(self, unit: Unit, turn: int, arm: str, position: int, outcomes: Outcomes) -> None:
        batch: dict[RecordId, tuple[Prompt, Ready]] = {}

        def keep(trace: Trace, prompt: Prompt) -> None:
            self._label(trace, unit, prompt, position)
            self.sink.trace(trace)
            record = RecordId(trace.key, arm, unit.concurrency)
            outcomes[record] = Outcome(trace.ok, trace.text)
            self.on_record(trace)

        for prompt in unit.prompts:
            record = RecordId(unit.key(prompt, turn), arm, unit.concurrency)
            if turn >= len(prompt.turns) or record in outcomes:
                continue
            built = self._build(unit, prompt, turn, arm, outcomes)
            if isinstance(built, Ready):
                batch[record] = (prompt, built)
            else:
                keep(self._unsent(record, built), prompt)
        if not batch:
            return
        for trace in self._decode(arm, unit.concurrency, batch):
            keep(trace, batch[RecordId(trace.key, arm, unit.concurrency)][0])
        self.sink.ticks(arm, unit.name, self.engine.drain_ticks())
        self.sink.windows(arm, unit.name, self.engine.drain_windows())

    def _build(
        self, unit: Unit, prompt: Prompt, turn: int, arm: str, outcomes: Outcomes
    ) -> Ready | Unsent:
        answers: Sequence[str] = prompt.recorded
        # Without a plain arm there is no answer of plain's to show: each arm sees its own.
        shared = self.conditions.history == "plain" and PLAIN in unit.orders[turn]
        source = PLAIN if shared else arm
        texts = []
        for earlier in range(turn):
            key = unit.key(prompt, earlier)
            own = outcomes[RecordId(key, arm, unit.concurrency)]
            shown = outcomes[RecordId(key, source, unit.concurrency)]
            if not (own.ok and shown.ok):
                return Unsent(turn_failed(earlier))
            texts.append(shown.text)
        if self.conditions.history != "fixed":
            answers = texts
        key = unit.key(prompt, turn)
        return build_request(self.engine, self.conditions, prompt, key, unit.sampling, answers)

    def _decode(
        self, arm: str, concurrency: int, batch: Mapping[RecordId, tuple[Prompt, Ready]]
    ) -> Iterator[Trace]:
        open_records = {record: ready for record, (_, ready) in batch.items()}
        requests = [ready.request for ready in open_records.values()]
        reason, finish = "the engine returned no trace", Finish.ERROR
        try:
            for trace in self.engine.run(arm, requests, concurrency):
                ready = open_records.pop(RecordId(trace.key, arm, concurrency))
                trace.prompt_hash = ready.prompt_hash
                yield trace
        except (MemoryError, RuntimeError) as error:
            # Engines report a failed request as a trace; memory may run out before they can.
            if not out_of_memory(error):
                raise
            reason, finish = str(error) or "out of memory", Finish.OOM
        for record, ready in open_records.items():
            unsent = Unsent(reason, len(ready.request.token_ids), ready.prompt_hash)
            yield replace(self._unsent(record, unsent), finish=finish)

    def _label(self, trace: Trace, unit: Unit, prompt: Prompt, position: int) -> None:
        trace.unit = unit.name
        trace.start = unit.start
        trace.order = position
        trace.category = prompt.category
        trace.split = prompt.split
        trace.resumed = self.resumed
        trace.concurrency = unit.concurrency

    def _unsent(self, record: RecordId, unsent: Unsent) -> Trace:
        return Trace(
            key=record.key,
            arm=record.arm,
            concurrency=record.concurrency,
            unit="",
            granularity=Granularity.REQUEST,
            seed=request_seed(self.conditions.seed, record.key),
            prompt_tokens=unsent.prompt_tokens,
            prompt_hash=unsent.prompt_hash,
            start_ns=self.clock(),
            finish=Finish.ERROR if unsent.failed else Finish.SKIPPED,
            error=unsent.reason,
        )
