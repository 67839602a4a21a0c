"""The target as training uses it: it continues token ids, many requests at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.full_memory import out_of_memory
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Finish, Trace
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.engines.native import NativeEngine

CHUNK = 8
"""Batches that are handed over at once: their requests share a KV pool."""
BATCH = "data.batch"
"""Key of a recipe that says how many requests are decoded at a time, if not another one does."""


class Answering(Protocol):
    """What training asks of an engine that answers; ``TargetAnswers`` says what each does."""

    def render(self, messages: Sequence[Message]) -> RenderedPrompt: ...

    def encode(self, text: str) -> tuple[int, ...]: ...

    def stops(self) -> Stops: ...

    def run(self, requests: Sequence[Request], batch: int) -> Iterator[Trace]: ...


class TargetAnswers:
    """Implements ``Answering`` with plain decoding of the native engine.

    Args:
        target: the recipe's ``[target]`` table.

    Raises:
        UsageError, PrerequisiteError: see ``models.opened.open_target``.
    """

    def __init__(self, target: Mapping[str, Any]) -> None:
        # Prompts and recipes are checked without torch.
        from specbench.engines.native import NativeEngine

        # What evidence says of each token is not read here, and it costs a fifth of a step.
        self.engine: NativeEngine = NativeEngine(
            {**target, "evidence": False, "spans": False}, [ArmSpec(PLAIN)]
        )

    def render(self, messages: Sequence[Message]) -> RenderedPrompt:
        """The conversation behind the chat template."""
        return self.engine.render(messages)

    def encode(self, text: str) -> tuple[int, ...]:
        """Ids of a text that has its template's marks already."""
        ids = self.engine.opened.loaded.tokenizer.encode(text, add_special_tokens=False)
        return tuple(ids)

    def stops(self) -> Stops:
        """The target's ends of an answer."""
        return self.engine.stops()

    def run(self, requests: Sequence[Request], batch: int, key: str = BATCH) -> Iterator[Trace]:
        """Decode some batches after the other; each trace is given when it ends.

        An output ends where the target's context does, a failed one with its reason in the trace.

        Args:
            key: of the recipe that ``batch`` comes from.

        Raises:
            SpecbenchError: there is no memory for the KV of a batch.
        """
        context = self.engine.context_limit
        fitted = [replace(r, limits=replace(r.limits, context=context)) for r in requests]
        try:
            for first in range(0, len(fitted), CHUNK * batch):
                for trace in self.engine.run(PLAIN, fitted[first : first + CHUNK * batch], batch):
                    self.engine.drain_ticks()
                    yield trace
        except (MemoryError, RuntimeError) as error:
            # A request that fails says so in its trace; memory may be full before there is one.
            if not out_of_memory(error):
                raise
            raise SpecbenchError(
                f"out of memory with {key} = {batch} requests at a time",
                _again(f"lower {key} and "),
            ) from error

    def facts(self) -> dict[str, str]:
        """What must be the same wherever more of the same data is made, see ``DataFolder``."""
        opened = self.engine.opened
        return {
            "name": opened.loaded.location.name,
            "weight_hash": opened.loaded.weight_hash,
            "quant": opened.loaded.quant.label,
            "template": self.render([{"role": "user", "content": "."}]).template,
            "system_policy": str(opened.settings.get("system_policy", "merge-into-user")),
        }

    def close(self) -> None:
        """Drop the KV pool; the target goes with this object."""
        self.engine.close()


def request_of(
    name: str, ids: Sequence[int], sampling: Sampling, limit: int, stops: Stops, seed: int
) -> Request:
    """A request of training; its random numbers follow from its name and the recipe's seed."""
    digest = hashlib.sha256(f"{seed}:{name}:{sampling.temperature}".encode()).digest()
    return Request(
        RequestKey("training", name, 0, sampling.temperature, 0),
        tuple(ids),
        sampling,
        Limits(limit),
        stops,
        int.from_bytes(digest[:8], "big"),
    )


def refuse_failed(trace: Trace, doing: str, key: str = BATCH) -> None:
    """Raise SpecbenchError for a request that failed.

    Args:
        doing: at what.
        key: of the recipe that says how many are decoded at a time.
    """
    if trace.finish in (Finish.EOS, Finish.LENGTH):
        return
    raise SpecbenchError(
        f"{doing} {trace.key.item} failed: {trace.error or trace.finish}",
        _again(f"lower {key} and " if trace.finish is Finish.OOM else ""),
    )


def _again(first: str) -> str:
    return f"what is finished is kept: {first}give the same command again"
