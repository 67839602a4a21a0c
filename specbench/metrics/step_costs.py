"""Decode steps as ticks with what was drafted in them, and what one of a kind costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from specbench.core.step_costs import ArmCosts, StepCost
from specbench.core.trace import Finish, Tick, TickKind, Trace
from specbench.metrics.phases import covered
from specbench.metrics.timeline import NS_PER_MS, finished

DRAFTING = frozenset({"draft", "refill"})
"""Phases that a drafter takes: its draft, and taking in what was verified."""
VERIFYING = frozenset({"verify"})


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One decode tick.

    Attributes:
        ns: nanoseconds of all of it.
        draft_ns, verify_ns: of drafting and of verification; None where spans were off.
        verified: drafted nodes per request.
        whole: no request was so near its limit that its draft had to be short.
    """

    ns: int
    draft_ns: int | None
    verify_ns: int | None
    verified: float
    whole: bool = True


def timed_steps(traces: Sequence[Trace], ticks: Sequence[Tick], *, k: int) -> list[TimedStep]:
    """The decode ticks of these requests, in order, those of the fullest batch alone.

    A request near its limit drafts less than ``k``, and one that ended leaves a smaller batch: such
    steps are rare in a measured request and common in the few tokens of a short one.

    Args:
        traces: requests that ran together; failed ones are left out.
        ticks: the engine's ticks of that time.
        k: longest draft, tokens.
    """
    verified: dict[int, list[int]] = defaultdict(list)
    short: set[int] = set()
    for trace in finished(traces):
        for tick, nodes, whole in _steps(trace, k):
            verified[tick].append(nodes)
            if not whole:
                short.add(tick)
    decode = [tick for tick in ticks if tick.kind is TickKind.DECODE and tick.index in verified]
    fullest = max((tick.rows for tick in decode), default=0)
    return [
        TimedStep(
            tick.end_ns - tick.start_ns,
            covered([tick], DRAFTING) if tick.spans else None,
            covered([tick], VERIFYING) if tick.spans else None,
            fmean(verified[tick.index]),
            tick.index not in short,
        )
        for tick in decode
        if tick.rows == fullest
    ]


def _steps(trace: Trace, k: int) -> Iterator[tuple[int, int, bool]]:
    """Tick, drafted nodes, and whether a whole draft fitted, of every step of a request."""
    steps = trace.steps
    left = sum(steps.committed)
    cut_short = trace.finish is Finish.LENGTH
    for tick, nodes, committed in zip(steps.tick, steps.verified, steps.committed, strict=True):
        # The last token of an output is the step's own: a draft has one token less to fill.
        yield tick, nodes, not cut_short or left - 1 >= k
        left -= committed


def arm_costs(
    steps: Sequence[TimedStep],
    plain: Sequence[TimedStep],
    temperature: float,
    concurrency: int,
    *,
    other_prompts: bool = True,
) -> ArmCosts | None:
    """Costs of an arm's steps in median steps of plain; None where plain has none."""
    t1_ns = median(step.ns for step in plain) if plain else 0.0
    if t1_ns <= 0:
        return None
    return ArmCosts(
        temperature,
        concurrency,
        t1_ns / NS_PER_MS,
        len(plain),
        step_cost(drafted(steps), t1_ns),
        step_cost([step for step in steps if not step.verified], t1_ns),
        other_prompts,
    )


def drafted(steps: Sequence[TimedStep]) -> list[TimedStep]:
    """The steps that verified a whole draft."""
    return [step for step in steps if step.verified and step.whole]


def step_cost(steps: Sequence[TimedStep], t1_ns: float) -> StepCost | None:
    """Medians of these steps over ``t1_ns``, the nanoseconds of a decode step of plain."""
    if not steps:
        return None
    whole = median(step.ns for step in steps) / t1_ns
    draft = [step.draft_ns for step in steps if step.draft_ns is not None]
    verify = [step.verify_ns for step in steps if step.verify_ns is not None]
    verified = fmean(step.verified for step in steps)
    if not draft or not verify:
        return StepCost(len(steps), verified, whole, None, None, None)
    d, v = median(draft) / t1_ns, median(verify) / t1_ns
    return StepCost(len(steps), verified, whole, d, v, whole - d - v)
