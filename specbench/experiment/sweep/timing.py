"""What a sweep may still measure in the minutes it was given."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.results.sweep.course import Step
from specbench.results.sweep.summary import SweepSummary

FEWEST = 6
"""Prompts per suite of a confirmation: with fewer no swap test comes below 5 %."""
RACE = 0.5
"""Share of a load's time that its race may take; the rest is for its confirmation."""
FIRST = 0.25
"""Share that its first step may take, which gets fewer prompts for that, but never too few."""


def time_left(state: SweepSummary, load: int) -> float | None:
    """Seconds that are left for a load, an equal share of all that is left; None for no limit."""
    if state.asked.minutes is None:
        return None
    loads = state.asked.loads
    own = sum(s for name, s in state.seconds.items() if name.startswith(f"load-{load}/"))
    left = 60 * state.asked.minutes - sum(state.seconds.values())
    # What this load has taken is part of its share.
    return (left + own) / (len(loads) - loads.index(load)) - own


def first_budget(state: SweepSummary, load: int) -> float | None:
    """Seconds for the first step of a load, of which nothing was timed; None for no limit."""
    left = time_left(state, load)
    return None if left is None else left * FIRST


def out_of_time(state: SweepSummary, load: int, step: Step, done: Mapping[str, int]) -> str:
    """Why the next rung is not run; empty where it is. The first always is, see ``first_budget``.

    Args:
        done: folder of a finished step -> arms times prompts per suite of its run, in order.
    """
    left, cost = time_left(state, load), _cost(state, load, done)
    if left is None or cost is None or step.number < 2 or step.limit is None:
        return ""
    if (len(step.candidates) + 1) * step.limit * cost <= left * RACE:
        return ""
    minutes = max(0.0, left) / 60
    return f"not decided in the time of this load, of which {minutes:.1f} minutes were left"


def confirm_limit(
    state: SweepSummary, load: int, step: Step, done: Mapping[str, int]
) -> int | None:
    """Prompts per suite that the time is enough for; None where there is no limit to the time."""
    left, cost = time_left(state, load), _cost(state, load, done)
    if left is None or cost is None:
        return None
    fits = int(left / cost / (len(step.candidates) + 1))
    return max(FEWEST, load, fits if step.limit is None else min(fits, step.limit))


def _cost(state: SweepSummary, load: int, done: Mapping[str, int]) -> float | None:
    """Seconds of one arm on one prompt of each suite, in the last step that was timed."""
    timed = [
        (seconds, weight)
        for name, weight in done.items()
        if (seconds := state.seconds.get(f"load-{load}/{name}"))
    ]
    if not timed:
        return None
    seconds, weight = timed[-1]
    return seconds / weight
