"""Warm-up with the measured shapes, and a short calibration: both outside all measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.core.request import Request, RequestKey
from specbench.core.suite import Prompt
from specbench.engines.protocol import Engine
from specbench.measure.clock import Clock
from specbench.measure.estimate import Speed
from specbench.measure.requests import Conditions, Ready, build_request

WARMUP_TOKENS = 8
"""Output tokens of a warm-up request: some steps with a draft and some without."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What warm-up showed: the time of each arm's first request and seconds per output token."""

    first_request_ms: Mapping[str, float]
    speed: Speed


def warmup_requests(
    engine: Engine, conditions: Conditions, prompts: Mapping[str, Sequence[Prompt]]
) -> list[Request]:
    """Requests with the shapes of the run: shortest and longest prompts, every temperature.

    The shortest prompts come first, one per temperature: they are what ``calibrate`` times.
    """
    tokens = min(WARMUP_TOKENS, conditions.max_new_tokens)
    short: list[Request] = []
    long: list[Request] = []
    for sampling in conditions.samplings:
        ready: list[Request] = []
        for suite, chosen in prompts.items():
            for prompt in chosen:
                key = RequestKey(f"warm-up/{suite}", prompt.id, 0, sampling.temperature, 0)
                built = build_request(engine, conditions, prompt, key, sampling, (), tokens)
                if isinstance(built, Ready):
                    ready.append(built.request)
        ready.sort(key=lambda request: len(request.token_ids))
        short.extend(ready[:1])
        long.extend(ready[1:][-1:])
    return short + long


def calibrate(
    engine: Engine,
    conditions: Conditions,
    arms: Sequence[str],
    requests: Sequence[Request],
    clock: Clock,
) -> Calibration:
    """Warm every arm up at every concurrency, then time one pass of each."""
    first: dict[str, float] = {}
    measured: dict[tuple[str, int], float] = {}
    for concurrency in conditions.concurrency:
        batch = [requests[i % len(requests)] for i in range(max(concurrency, len(requests)))]
        for arm in arms:
            if arm not in first:
                start = clock()
                engine.warm_up(arm, requests[:1], 1)
                first[arm] = (clock() - start) / 1e6
            for _ in range(conditions.warmup):
                engine.warm_up(arm, batch, concurrency)
            timed = batch[: max(concurrency, len(conditions.samplings))]
            start = clock()
            tokens = sum(len(trace.output_ids) for trace in engine.run(arm, timed, concurrency))
            if tokens:
                measured[arm, concurrency] = (clock() - start) / 1e9 / tokens
    engine.drain_ticks()
    slowest = max(measured.values(), default=0.0)
    return Calibration(first, Speed("measured in warm-up", slowest, measured))
