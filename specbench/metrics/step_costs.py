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


@dataclass(frozen=True, slots=True)
class Round:
    """Steps of an arm, and those of plain on the same prompts at about the same time."""

    steps: Sequence[TimedStep]
    plain: Sequence[TimedStep]

    @property
    def t1_ns(self) -> float:
        """Nanoseconds of plain's median step; 0 where it has none."""
        return median(step.ns for step in self.plain) if self.plain else 0.0


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
    rounds: Sequence[Round], temperature: float, concurrency: int, *, other_prompts: bool = True
) -> ArmCosts | None:
    """Costs of an arm's steps, each in the median step of plain in its own round.

    A machine that changes its speed between rounds changes both. Rounds without a step of plain are
    left out; None where no other is there.
    """
    paired = [one for one in rounds if one.t1_ns > 0]
    if not paired:
        return None
    plain = [step.ns for one in paired for step in one.plain]
    return ArmCosts(
        temperature,
        concurrency,
        median(plain) / NS_PER_MS,
        len(plain),
        step_cost([(step, one.t1_ns) for one in paired for step in drafted(one.steps)]),
        step_cost([(s, one.t1_ns) for one in paired for s in one.steps if not s.verified]),
        other_prompts,
    )


def drafted(steps: Sequence[TimedStep]) -> list[TimedStep]:
    """The steps that verified a whole draft."""
    return [step for step in steps if step.verified and step.whole]


def step_cost(steps: Sequence[tuple[TimedStep, float]]) -> StepCost | None:
    """Medians of steps, each over the nanoseconds of a decode step of plain that go with it."""
    if not steps:
        return None
    whole = median(step.ns / t1_ns for step, t1_ns in steps)
    draft = [step.draft_ns / t1_ns for step, t1_ns in steps if step.draft_ns is not None]
    verify = [step.verify_ns / t1_ns for step, t1_ns in steps if step.verify_ns is not None]
    verified = fmean(step.verified for step, _ in steps)
    if not draft or not verify:
        return StepCost(len(steps), verified, whole, None, None, None)
    d, v = median(draft), median(verify)
    return StepCost(len(steps), verified, whole, d, v, whole - d - v)
