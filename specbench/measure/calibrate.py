"""Warm-up with the measured shapes, and a short calibration: both outside all measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specbench.core.limit import Limit
from specbench.core.request import Request, Sampling
from specbench.core.step_costs import StepCosts
from specbench.core.suite import Prompt
from specbench.core.warm_up import warm_up_key
from specbench.engines.protocol import Engine
from specbench.errors import SpecbenchError
from specbench.measure.clock import Clock
from specbench.measure.estimate import Speed
from specbench.measure.requests import Conditions, Ready, build_request
from specbench.metrics.phases import NO_TICKS
from specbench.metrics.timeline import output_tokens

WARMUP_TOKENS = 8
"""Output tokens of a warm-up request: some steps with a draft and some without."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What warm-up showed: the time of each arm's first request and seconds per output token.

    ``failed`` holds, by arm, why it could not be warmed up; ``ticks`` says whether the engine
    recorded any, ``steps`` what was then timed from them (``step_times``), and ``limit`` what
    memory allows, where that is known (``measure.limit``).
    """

    first_request_ms: Mapping[str, float]
    speed: Speed
    failed: Mapping[str, str] = field(default_factory=dict)
    ticks: bool = False
    steps: StepCosts = field(default_factory=lambda: StepCosts(reason=NO_TICKS))
    limit: Limit | None = None


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
        ready = warm_requests(engine, conditions, prompts, sampling, tokens)
        short.extend(ready[:1])
        long.extend(ready[1:][-1:])
    return short + long


def warm_requests(
    engine: Engine,
    conditions: Conditions,
    prompts: Mapping[str, Sequence[Prompt]],
    sampling: Sampling,
    tokens: int,
) -> list[Request]:
    """First turns that can be sent, outside the measurement, the shortest prompt first.

    Args:
        tokens: longest output of each.
    """
    ready: list[Request] = []
    for suite, chosen in prompts.items():
        for prompt in chosen:
            key = warm_up_key(suite, prompt.id, sampling.temperature)
            built = build_request(engine, conditions, prompt, key, sampling, (), tokens)
            if isinstance(built, Ready):
                ready.append(built.request)
    return sorted(ready, key=_length)


def calibrate(
    engine: Engine,
    conditions: Conditions,
    arms: Sequence[str],
    requests: Sequence[Request],
    clock: Clock,
    *,
    spare: bool = False,
) -> Calibration:
    """Warm every arm up at every concurrency, then time one pass of each.

    Args:
        arms: all of them have begun; arms that live apart are warmed up by ``warm_start``.
        requests: from ``warmup_requests``: by their keys the engine knows that what they teach a
            drafter, timed or not, is not to stay.
        spare: an arm that fails here is left out as long as another one works. A server that
            died ends its arm and not the run; in one process a failure is everybody's.

    Raises:
        SpecbenchError: a request failed; the first failure where every arm is broken.
    """
    first: dict[str, float] = {}
    measured: dict[tuple[str, int], float] = {}
    failed: dict[str, SpecbenchError] = {}
    for concurrency in conditions.concurrency:
        batch = _batch(requests, concurrency)
        timed = batch[: max(concurrency, len(conditions.samplings))]
        for arm in arms:
            if arm in failed:
                continue
            try:
                if arm not in first:
                    first[arm] = _first_request_ms(engine, arm, requests, clock)
                for _ in range(conditions.warmup):
                    engine.warm_up(arm, batch, concurrency)
            except SpecbenchError as error:
                failed[arm] = error
                if not spare or len(failed) == len(arms):
                    raise next(iter(failed.values())) from None
                continue
            start = clock()
            tokens = sum(map(output_tokens, engine.run(arm, timed, concurrency)))
            if tokens:
                measured[arm, concurrency] = (clock() - start) / 1e9 / tokens
    ticks = bool(engine.drain_ticks())
    engine.drain_windows()
    slowest = max(measured.values(), default=0.0)
    reasons = {arm: error.message for arm, error in failed.items()}
    return Calibration(first, Speed("measured in warm-up", slowest, measured), reasons, ticks)


def warm_start(
    engine: Engine, conditions: Conditions, arm: str, requests: Sequence[Request], clock: Clock
) -> dict[str, float]:
    """Warm up an arm whose server was just started, at every concurrency; nothing is timed.

    Returns:
        ``first_request_ms``: what the first request took, for the record of this start.

    Raises:
        SpecbenchError: a request failed.
    """
    first = _first_request_ms(engine, arm, requests, clock)
    for concurrency in conditions.concurrency:
        for _ in range(conditions.warmup):
            engine.warm_up(arm, _batch(requests, concurrency), concurrency)
    engine.drain_ticks()
    engine.drain_windows()
    return {"first_request_ms": first}


def _first_request_ms(engine: Engine, arm: str, requests: Sequence[Request], clock: Clock) -> float:
    start = clock()
    engine.warm_up(arm, requests[:1], 1)
    return (clock() - start) / 1e6


def _batch(requests: Sequence[Request], concurrency: int) -> list[Request]:
    return [requests[i % len(requests)] for i in range(max(concurrency, len(requests)))]


def _length(request: Request) -> int:
    """Length of a prompt: its tokens, or its characters where no tokenizer is at hand."""
    characters = sum(len(str(message.get("content", ""))) for message in request.messages)
    return len(request.token_ids) or characters
