"""Runs a plan: arms interleaved inside each unit, every record handed on as soon as it exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from specbench.core.arm import PLAIN
from specbench.core.manifest import RecordId, turn_failed
from specbench.core.suite import Prompt
from specbench.core.trace import Finish, Granularity, Tick, Trace
from specbench.engines.protocol import Engine
from specbench.measure.clock import Clock, monotonic
from specbench.measure.plan import Unit
from specbench.measure.requests import Conditions, Ready, Unsent, build_request, request_seed


class Sink(Protocol):
    """Where records go; each call returns when the record is safe."""

    def trace(self, trace: Trace) -> None:
        """Keep one trace."""
        ...

    def ticks(self, arm: str, unit: str, ticks: Sequence[Tick]) -> None:
        """Keep the ticks of one arm in one unit and turn."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What later turns need of a record."""

    ok: bool
    text: str


@dataclass(slots=True)
class Runner:
    """Runs units on an engine.

    Attributes:
        done: records of an earlier session that are kept; they are not run again.
        resumed: how many times this run had been resumed.
        on_record: called after each new record, for progress.
    """

    engine: Engine
    conditions: Conditions
    sink: Sink
    done: Mapping[RecordId, Outcome]
    resumed: int = 0
    on_record: Callable[[Trace], None] = lambda trace: None
    clock: Clock = monotonic

    def run(self, units: Sequence[Unit]) -> None:
        """Run what is not done yet; a failed request becomes a record and the run goes on."""
        for unit in units:
            outcomes = {
                record: self.done[record] for record in unit.records() if record in self.done
            }
            for turn, order in enumerate(unit.orders):
                for position, arm in enumerate(order):
                    self._run_arm(unit, turn, arm, position, outcomes)

    def _run_arm(
        self, unit: Unit, turn: int, arm: str, position: int, outcomes: dict[RecordId, Outcome]
    ) -> None:
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

    def _build(
        self, unit: Unit, prompt: Prompt, turn: int, arm: str, outcomes: Mapping[RecordId, Outcome]
    ) -> Ready | Unsent:
        answers: Sequence[str] = prompt.recorded
        source = PLAIN if self.conditions.history == "plain" else arm
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
            if not isinstance(error, MemoryError) and "out of memory" not in str(error).lower():
                raise
            reason, finish = str(error) or "out of memory", Finish.OOM
        for record, ready in open_records.items():
            unsent = Unsent(reason, len(ready.request.token_ids), ready.prompt_hash)
            yield replace(self._unsent(record, unsent), finish=finish)

    def _label(self, trace: Trace, unit: Unit, prompt: Prompt, position: int) -> None:
        trace.unit = unit.name
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
