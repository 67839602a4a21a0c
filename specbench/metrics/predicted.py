"""Speed-up predicted from accept length and the cost of a step, and how far off it is.

S = E / (d + v + o) (ALGORITHMS 2.1 and 2.2), with E of the measured requests and the costs of a
calibration pass on other prompts. Steps that draft nothing cost less than those that do, so that
both kinds are counted: S = committed / (drafted steps x (d + v + o) + idle steps x idle).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.core.quantity import Absence, Missing, Quantity, nothing, unavailable
from specbench.core.step_costs import ArmCosts, StepCost
from specbench.core.trace import Trace
from specbench.metrics.phases import NO_SPANS
from specbench.metrics.units import Pair, item_label, sums
from specbench.stats.bootstrap import total_ratio

VALUE = "value"
UNCALIBRATED = Missing(Absence.NOT_AVAILABLE, "no steps were timed before this run")
NO_DRAFT = "the calibration saw no step with a whole draft"
NO_IDLE = "every step drafted, in the calibration and in the run"
IDLE_AS_PLAIN = "steps without a draft taken as plain's: the calibration saw none"


def predicted_speedup(
    joined: Sequence[Pair], costs: ArmCosts | Missing, *, seed: int
) -> dict[str, Quantity]:
    """The prediction for the paired requests, and what it is made of.

    Args:
        joined: the requests behind the measured speed-up.
        costs: what the calibration says of this arm, or why it says nothing.
        seed: seed of the resampling.

    Returns:
        ``value`` (x), resampled over prompts with the costs taken as exact; ``accept_length`` E in
        tokens per step, ``drafted`` the share of steps that cost ``step`` = ``d`` + ``v`` + ``o``,
        and ``idle`` what the others cost, in decode steps of plain, absent where nobody timed one.
        Only ``value``, with its reason, where there is no prediction.
    """
    if isinstance(costs, Missing):
        return {VALUE: Quantity(costs, "x")}
    if not joined:
        return {VALUE: nothing("no request was finished by both arms", "x")}
    traces = [pair.arm for pair in joined]
    drafted = _drafted_steps(traces)
    idle = [len(trace.steps) - count for trace, count in zip(traces, drafted, strict=True)]
    if any(drafted) and costs.drafted is None:
        return {VALUE: unavailable(NO_DRAFT, "x")}
    busy = costs.drafted.step if costs.drafted else 0.0
    rest = costs.idle.step if costs.idle else 1.0
    committed = [float(sum(trace.steps.committed)) for trace in traces]
    cost = [n * busy + m * rest for n, m in zip(drafted, idle, strict=True)]
    labels = [item_label(trace) for trace in traces]
    value = total_ratio(
        sums(labels, committed), sums(labels, cost), seed=seed, unit="x", empty="no decode steps"
    )
    if not value.known:
        return {VALUE: value}
    steps = sum(drafted) + sum(idle)
    method = f"{value.method}; {_said(costs, any(drafted), any(idle))}"
    return {
        VALUE: replace(value, method=method),
        "accept_length": Quantity(sum(committed) / steps, "tokens/step", n=value.n),
        "drafted": Quantity(sum(drafted) / steps, "1", n=value.n),
        **_parts(costs.drafted),
        "idle": _idle(costs.idle, any(idle)),
    }


def prediction_error(predicted: Quantity, measured: Mapping[str, Quantity]) -> dict[str, Quantity]:
    """(predicted - measured) / measured for every measured speed-up; positive = promised more."""
    return {name: _error(predicted, quantity) for name, quantity in measured.items()}


def _error(predicted: Quantity, measured: Quantity) -> Quantity:
    for missing in (predicted, measured):
        if not missing.known:
            return replace(missing, unit="1")
    real = measured.number()
    return Quantity((predicted.number() - real) / real, "1", n=predicted.n)


def _drafted_steps(traces: Sequence[Trace]) -> list[int]:
    """Steps of each request that have the cost of a draft: in a batch one draft is enough."""
    if all(trace.concurrency == 1 for trace in traces):
        return [sum(nodes > 0 for nodes in trace.steps.verified) for trace in traces]
    busy = {
        (trace.unit, tick)
        for trace in traces
        for tick, nodes in zip(trace.steps.tick, trace.steps.verified, strict=True)
        if nodes
    }
    return [sum((trace.unit, tick) in busy for tick in trace.steps.tick) for trace in traces]


def _parts(cost: StepCost | None) -> dict[str, Quantity]:
    """What a step that drafts costs, and its d, v and o or why they cannot be told apart."""
    if cost is None:
        return dict.fromkeys(("step", "d", "v", "o"), nothing(NO_DRAFT, "1"))
    parts = {"step": cost.step, "d": cost.d, "v": cost.v, "o": cost.o}
    return {
        name: unavailable(NO_SPANS, "1") if part is None else Quantity(part, "1", n=cost.steps)
        for name, part in parts.items()
    }


def _idle(cost: StepCost | None, needed: bool) -> Quantity:
    """What a step without a draft costs, or why that is unknown."""
    if cost is not None:
        return Quantity(cost.step, "1", n=cost.steps)
    return unavailable(IDLE_AS_PLAIN, "1") if needed else nothing(NO_IDLE, "1")


def _said(costs: ArmCosts, drafted: bool, idle: bool) -> str:
    """What the costs rest on."""
    parts = [f"{costs.t1_steps} of plain"]
    if drafted and costs.drafted:
        parts.append(f"{costs.drafted.steps} with {costs.drafted.verified:.1f} drafted nodes")
    if idle and costs.idle:
        parts.append(f"{costs.idle.steps} without a draft")
    text = f"costs, taken as exact, from steps before the run: {', '.join(parts)}"
    if not costs.other_prompts:
        text += "; on prompts that are measured too, for want of others"
    return f"{text}; {IDLE_AS_PLAIN}" if idle and not costs.idle else text
