"""What a decode step of each arm costs beside plain's, from a short pass before the run.

The speed-up that a run should show is predicted from it (``metrics.predicted``). The prompts of the
pass are others than those that are measured, and no accept length is taken from it: with either
the prediction would repeat the measurement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.core.arm import PLAIN
from specbench.core.request import Request, Sampling
from specbench.core.step_costs import ArmCosts, StepCosts
from specbench.core.suite import Prompt
from specbench.engines.protocol import Engine
from specbench.measure.calibrate import warm_requests
from specbench.measure.requests import Conditions
from specbench.metrics.step_costs import Round, TimedStep, arm_costs, drafted, timed_steps

WANTED = 24
"""Steps of each arm that are to be timed, with a whole draft, and of plain beside each arm."""
ROUNDS = 6
"""Most rounds over the arms; a drafter that finds little in its prompts stays below ``WANTED``."""
ROUND_STEPS = 8
"""Steps of one arm in a round, about: machines change their speed from minute to minute."""


def time_steps(
    engine: Engine,
    conditions: Conditions,
    arms: Mapping[str, int],
    prompts: Mapping[str, Sequence[Prompt]],
    *,
    other_prompts: bool = True,
) -> StepCosts:
    """Time some decode steps of every arm at every temperature and concurrency, interleaved.

    Args:
        engine: one that records ticks; all arms have begun and are warm.
        arms: the longest draft of each arm in tokens; those that draft nothing are not timed.
        prompts: of every suite, to decode outside the measurement.
        other_prompts: whether none of them is measured.
    """
    drafting = {arm: k for arm, k in arms.items() if k}
    if PLAIN not in arms:
        return StepCosts(reason="this run has no plain arm")
    if not drafting:
        return StepCosts()
    found: dict[str, list[ArmCosts]] = {arm: [] for arm in drafting}
    for sampling in conditions.samplings:
        requests = _typical(engine, conditions, prompts, sampling)
        for concurrency in conditions.concurrency if requests else ():
            rounds = _rounds(engine, drafting, requests, concurrency)
            for arm in drafting:
                costs = arm_costs(
                    rounds[arm], sampling.temperature, concurrency, other_prompts=other_prompts
                )
                if costs is not None:
                    found[arm].append(costs)
    return StepCosts({arm: tuple(costs) for arm, costs in found.items()})


def _rounds(
    engine: Engine, drafting: Mapping[str, int], requests: Sequence[Request], concurrency: int
) -> dict[str, list[Round]]:
    """Each arm in turn until it has enough, and plain in every round.

    An arm keeps plain's steps of its own rounds alone: what the machine does after it has left, for
    the sake of arms that find less, is not its time.
    """
    rounds: dict[str, list[Round]] = {arm: [] for arm in drafting}
    for number in range(ROUNDS):
        open_arms = [arm for arm, seen in rounds.items() if not _enough(seen)]
        if not open_arms:
            break
        # No arm is always the one that finds the machine as plain left it.
        turn = number % (len(open_arms) + 1)
        order = [PLAIN, *open_arms]
        batch = [
            requests[(number * concurrency + place) % len(requests)] for place in range(concurrency)
        ]
        steps = {
            arm: _steps(engine, arm, drafting.get(arm, 0), batch, concurrency)
            for arm in order[turn:] + order[:turn]
        }
        for arm in open_arms:
            rounds[arm].append(Round(steps[arm], steps[PLAIN]))
    return rounds


def _enough(rounds: Sequence[Round]) -> bool:
    """Whether an arm and plain beside it have the steps wanted."""
    paired = [one for one in rounds if one.plain]
    whole = sum(len(drafted(one.steps)) for one in paired)
    return min(whole, sum(len(one.plain) for one in paired)) >= WANTED


def _steps(
    engine: Engine, arm: str, k: int, batch: Sequence[Request], concurrency: int
) -> list[TimedStep]:
    """One short request in every place of the batch, long enough for whole drafts."""
    # Arms that draft commit several tokens in a step, and the last k leave no room for a draft.
    tokens = 1 + ROUND_STEPS * (2 if k else 1) + k
    short = [
        replace(
            request,
            limits=replace(
                request.limits, max_new_tokens=min(tokens, request.limits.max_new_tokens)
            ),
        )
        for request in batch
    ]
    traces = list(engine.run(arm, short, concurrency))
    engine.drain_windows()
    return timed_steps(traces, engine.drain_ticks(), k=k)


def _typical(
    engine: Engine,
    conditions: Conditions,
    prompts: Mapping[str, Sequence[Prompt]],
    sampling: Sampling,
) -> list[Request]:
    """Requests of every prompt, those of median length first: a step costs more in a long one."""
    ready = warm_requests(engine, conditions, prompts, sampling, conditions.max_new_tokens)
    middle = len(ready) // 2
    return [ready[i] for i in sorted(range(len(ready)), key=lambda i: abs(i - middle))]
