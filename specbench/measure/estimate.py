"""What a run will cost in time, and how many prompts fit into a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from specbench.core.manifest import RecordId
from specbench.errors import UsageError
from specbench.measure.plan import Unit

FEWEST_ITEMS = 2
"""Prompts per suite below which there is nothing to compare."""

ASSUMED_TOKENS_PER_S = {"cpu": 15.0}
ASSUMED_ELSEWHERE = 100.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds per output token, by arm and concurrency, and where they come from."""

    basis: str
    default: float
    measured: Mapping[tuple[str, int], float] = field(default_factory=dict)

    def seconds_per_token(self, arm: str, concurrency: int) -> float:
        """For all requests of a batch together; batching is assumed to pay half of its width."""
        assumed = self.default / max(1.0, concurrency / 2)
        return self.measured.get((arm, concurrency), assumed)


ASSUMED_START_S = 20.0
"""Seconds until a server has loaded a model and answers, until a run has measured it."""

SPREAD = 0.25
"""Assumed spread of the speed-up between prompts, until a run has measured it."""
TWO_SIDED_95_POWER_80 = 1.96 + 0.84
"""Sum of the normal quantiles of a two-sided 5 % test with 80 % power."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Prompts, requests, largest possible number of output tokens, and seconds of a run.

    ``starts`` counts the servers that are started; their time is in ``seconds``.
    """

    arms: int
    items: int
    requests: int
    tokens: int
    seconds: float
    basis: str
    starts: int = 0

    @property
    def minutes(self) -> float:
        """The estimated time in minutes."""
        return self.seconds / 60


def planned_difference(prompts: int) -> float:
    """Smallest relative difference in speed that so many prompts can show, by rule of thumb."""
    return math.expm1(TWO_SIDED_95_POWER_80 * SPREAD / math.sqrt(prompts))


def assumed_speed(device: str) -> Speed:
    """A speed to plan with before anything was measured."""
    rate = ASSUMED_TOKENS_PER_S.get(device.partition(":")[0], ASSUMED_ELSEWHERE)
    return Speed(f"assumed {rate:g} tokens/s, not measured", 1.0 / rate)


def estimate(
    units: Sequence[Unit],
    max_new_tokens: int,
    speed: Speed,
    done: Container[RecordId] = (),
    starts: int = 0,
    start_s: float = ASSUMED_START_S,
) -> Estimate:
    """The cost of what is not done, if every answer runs to its length limit.

    Args:
        units: of all stages.
        done: records that are kept and cost nothing.
        starts: servers that are started, see ``stages.server_starts``.
        start_s: seconds of one start.
    """
    records = [record for unit in units for record in unit.records() if record not in done]
    seconds = sum(
        max_new_tokens * speed.seconds_per_token(record.arm, record.concurrency)
        for record in records
    )
    return Estimate(
        arms=len({record.arm for record in records}),
        items=len({(record.key.suite, record.key.item) for record in records}),
        requests=len(records),
        tokens=len(records) * max_new_tokens,
        seconds=seconds + starts * start_s,
        basis=speed.basis,
        starts=starts,
    )


def fit_budget(
    budget_s: float,
    largest: int,
    cost: Callable[[int], Estimate],
    fewest: int = FEWEST_ITEMS,
    refuse: bool = True,
) -> tuple[int, Estimate]:
    """The largest number of prompts per suite whose estimated cost is within the budget.

    Args:
        budget_s: seconds.
        largest: prompts per suite that were asked for.
        cost: the estimate for a number of prompts per suite.
        fewest: prompts per suite below which a run is refused; one for each server start at least.
        refuse: whether it is; else so many are taken, whatever they cost.

    Raises:
        UsageError: not even ``fewest`` per suite fit.
    """
    smallest = min(fewest, largest)
    for items in range(largest, smallest - 1, -1):
        found = cost(items)
        if found.seconds <= budget_s:
            return items, found
    least = cost(smallest)
    if not refuse:
        return smallest, least
    raise UsageError(
        f"a budget of {budget_s / 60:.1f} minutes is too small: {smallest} "
        f"prompts per suite take about {least.minutes:.1f} minutes ({least.basis})",
        "allow more time, or lower --max-new-tokens or the number of arms and temperatures",
    )
