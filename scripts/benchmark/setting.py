"""What all figures are measured on, and pieces that measuring them shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import click

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.core.trace import Tick, TickKind, Trace
from specbench.engines.native import NativeEngine
from specbench.suites.loader import load_suite, select
from specbench.suites.templates import messages_for_turn

MODEL = "smollm2-135m-instruct"
TARGET = {"model": MODEL, "dtype": "float32", "device": "cpu"}
ARMS = [
    ArmSpec("plain"),
    ArmSpec("ngram", "ngram", 5),
    ArmSpec("layer_skip", "layer_skip", 3),
    ArmSpec("typical", "ngram", 5, "typical"),
]
ROUNDS = 5


def say(text: str) -> None:
    """Progress, on stderr."""
    click.echo(text, err=True)


def requests(
    engine: NativeEngine, suites: Sequence[str], each: int, tokens: int, temperature: float
) -> list[Request]:
    """First turns of test prompts as requests."""
    found: list[Request] = []
    for name in suites:
        for prompt in select(load_suite(name), split="test", limit=each):
            ids = engine.render(messages_for_turn(prompt, 0, [])).token_ids
            found.append(
                Request(
                    RequestKey(name, prompt.id, 0, temperature, 0),
                    ids,
                    Sampling(temperature),
                    Limits(tokens, tokens),
                    engine.stops(),
                    seed=len(found),
                )
            )
    return found


def decode(
    engine: NativeEngine, arm: str, asked: Sequence[Request], concurrency: int = 1
) -> list[Trace]:
    """Traces of one arm; its ticks are left in the engine."""
    return list(engine.run(arm, asked, concurrency))


def decode_ticks(
    engine: NativeEngine, arm: str, asked: Sequence[Request], concurrency: int = 1
) -> list[Tick]:
    """Decode ticks of one arm, after a request that warms it up."""
    decode(engine, arm, asked[:1])
    engine.drain_ticks()
    decode(engine, arm, asked, concurrency)
    return [tick for tick in engine.drain_ticks() if tick.kind is TickKind.DECODE]


def seconds(tick: Tick, phases: Collection[str] | None = None) -> float:
    """Length of a tick, or of some of its phases."""
    if phases is None:
        return (tick.end_ns - tick.start_ns) / 1e9
    return sum(s.end_ns - s.start_ns for s in tick.spans if s.phase in phases) / 1e9


def share(ticks: Sequence[Tick], phases: Collection[str]) -> float:
    """Share of ticks that some phases take."""
    return sum(seconds(t, phases) for t in ticks) / sum(seconds(t) for t in ticks)


def at(asked: Sequence[Request], sampling: Sampling) -> list[Request]:
    """The same requests under other settings."""
    return [replace(request, sampling=sampling) for request in asked]
