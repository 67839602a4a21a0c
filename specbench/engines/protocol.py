"""What the measurement asks of an engine, native or attached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from specbench.core.arm import ArmMemory, ArmSpec
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import Tick, Trace, Window

__all__ = ["Engine", "EngineFactory", "RenderedPrompt"]


class Engine(Protocol):
    """One loaded target with the arms that run on it.

    ``run`` yields each trace when its request ends, in any order, and never raises for a failed
    request: the trace carries ``finish`` ERROR or OOM and the reason. The caller fills the fields
    of the trace that belong to the experiment (unit, order, category, split, resumed).
    """

    name: str
    device: str
    context_limit: int

    def describe(self) -> Mapping[str, object]:
        """Facts for the manifest: models, revisions, weight hashes, dtype, library versions."""
        ...

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Apply the chat template and tokenise; raises SpecbenchError where that is refused.

        Args:
            passed_on: ``tools`` and ``chat_template_kwargs`` of the prompt, for the template.
        """
        ...

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """EOS ids of the target and the given stop strings."""
        ...

    def memory(self, arm: str) -> ArmMemory:
        """Weights and KV bytes of an arm."""
        ...

    def warm_up(self, arm: str, requests: Sequence[Request], concurrency: int) -> None:
        """Run once with measured shapes, outside all timings and counters."""
        ...

    def run(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        """Decode all requests, at most ``concurrency`` at a time."""
        ...

    def begin(self, arms: Sequence[str], start: int) -> Mapping[str, Mapping[str, object]]:
        """Make these arms ready to decode; an engine that starts servers starts them anew.

        Args:
            arms: the arms that will be asked to run until ``end``.
            start: how often this was called before for these arms.

        Returns:
            per started arm what is worth keeping: command line, version, seconds until it was
            ready; empty where nothing was started. An arm whose server cannot be started is
            no error here: its requests fail with the reason.
        """
        ...

    def end(self) -> None:
        """The arms of the last ``begin`` are done: their servers may go."""
        ...

    def drain_windows(self) -> Sequence[Window]:
        """What counters showed, one entry per call of ``run`` since the last call of this."""
        ...

    def drain_ticks(self) -> Sequence[Tick]:
        """Ticks since the last call, oldest first; empty for engines that cannot see them."""
        ...

    def close(self) -> None:
        """Free models and caches."""
        ...


class EngineFactory(Protocol):
    """How an engine is built from an experiment; ``catalog.ENGINES`` maps names to these."""

    def __call__(self, target: Mapping[str, object], arms: Sequence[ArmSpec]) -> Engine: ...
