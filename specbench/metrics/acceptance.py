"""Acceptance: how many tokens a decode step yields, from the step records (METRICS, "Ours").

All values are pooled (sum over sum) unless the name says macro; intervals resample whole prompts.
Where only some requests of a cell show steps, those are pooled and ``method`` says how many are
left out: totals of the others mean something else and never join them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Granularity, Trace
from specbench.metrics.timeline import finished, output_tokens
from specbench.metrics.units import item_sums
from specbench.stats.bootstrap import total_ratio

Count = Callable[[Trace], float]
LENGTH = "tokens/step"
NOTHING_DRAFTED = "nothing was drafted"


def accept_length(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Committed tokens per decode step, pooled; recovered or bonus token included."""
    return pooled(traces, _committed, _steps, LENGTH, seed)


def accept_length_drafted(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """``accept_length`` over steps that verified a draft."""
    return pooled(
        traces,
        lambda trace: sum(
            committed
            for committed, verified in zip(trace.steps.committed, trace.steps.verified, strict=True)
            if verified > 0
        ),
        _drafted_steps,
        LENGTH,
        seed,
        NOTHING_DRAFTED,
    )


def draft_coverage(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Share of decode steps that verified a draft."""
    return pooled(traces, _drafted_steps, _steps, "1", seed)


def accept_length_uncut(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """``accept_length`` without each request's last step, which a stop may have cut."""
    return pooled(
        traces,
        lambda trace: sum(trace.steps.committed[:-1]),
        lambda trace: max(len(trace.steps) - 1, 0),
        LENGTH,
        seed,
        "no request has two decode steps",
    )


def accept_length_macro(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Mean over requests of the per-request accept length."""
    return pooled(
        traces,
        lambda trace: _committed(trace) / len(trace.steps) if len(trace.steps) else 0.0,
        lambda trace: 1 if len(trace.steps) else 0,
        LENGTH,
        seed,
    )


def accepted_mean(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Accepted draft tokens per decode step; no recovered or bonus token."""
    return pooled(traces, _accepted, _steps, LENGTH, seed)


def accept_rate(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Accepted per judged draft token of chains; nothing to measure where nothing was drafted."""
    if _trees(traces):
        return nothing("drafts are trees: see rate_depth and rate_node", "1")
    return pooled(traces, _accepted, _judged, "1", seed, NOTHING_DRAFTED)


def rate_depth(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Accepted per judged node of the longest path, where drafts are trees."""
    return _of_trees(traces, lambda trace: sum(trace.steps.depths), seed)


def rate_node(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Accepted per judged node, where drafts are trees: siblings of accepted nodes cannot be."""
    return _of_trees(traces, _judged, seed)


def _of_trees(traces: Sequence[Trace], bottom: Count, seed: int) -> Quantity:
    missing = absent(traces, "1")
    if missing is None and not _trees(traces):
        drafted = any(map(_verified, stepped(traces)))
        return nothing("drafts are chains: see accept_rate" if drafted else NOTHING_DRAFTED, "1")
    return missing or pooled(traces, _accepted, bottom, "1", seed, NOTHING_DRAFTED)


def _trees(traces: Sequence[Trace]) -> bool:
    return any(trace.steps.depth for trace in stepped(traces))


def waste(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Share of verified draft tokens that were not accepted."""
    return pooled(
        traces,
        lambda trace: _verified(trace) - _accepted(trace),
        _verified,
        "1",
        seed,
        NOTHING_DRAFTED,
    )


def drafted_per_token(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Verified draft tokens per committed token: how shy the drafter is (case C4)."""
    return pooled(traces, _verified, _committed, "1", seed)


def outside_draft(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Share of output tokens that the draft's own vocabulary does not have (case E3)."""
    known = [trace for trace in finished(traces) if trace.outside_draft is not None]
    if not known:
        return nothing("the draft has no vocabulary of its own", "1")
    return total_ratio(
        item_sums(known, lambda trace: trace.outside_draft or 0),
        item_sums(known, output_tokens),
        seed=seed,
        unit="1",
        empty="no output tokens",
    )


def accept_pos(traces: Sequence[Trace]) -> dict[str, Quantity]:
    """Counts and rates per draft position, keys ``judged_1``, ``reached_1``, ``rate_1`` ...

    A position is a depth, on trees that of the longest path. judged_k: steps with depth >= k.
    reached_k: those that accepted >= k-1. accepted_k: those that accepted >= k. rate_k =
    accepted_k / judged_k is unconditional, conditional_k = accepted_k / reached_k. With full,
    uncut drafts the sum of rate_k is accept_length - 1.
    """
    missing = absent(traces, "1")
    if missing is not None:
        return {"rate_1": missing}
    rows = [
        row
        for trace in stepped(traces)
        for row in zip(trace.steps.depths, trace.steps.accepted, strict=True)
    ]
    deepest = max(judged for judged, _ in rows)
    if deepest == 0:
        return {"rate_1": nothing(NOTHING_DRAFTED, "1")}
    table: dict[str, Quantity] = {}
    for k in range(1, deepest + 1):
        judged = sum(row[0] >= k for row in rows)
        reached = sum(row[0] >= k and row[1] >= k - 1 for row in rows)
        accepted = sum(row[1] >= k for row in rows)
        table[f"judged_{k}"] = Quantity(float(judged), "steps", n=len(rows))
        table[f"reached_{k}"] = Quantity(float(reached), "steps", n=len(rows))
        table[f"accepted_{k}"] = Quantity(float(accepted), "steps", n=len(rows))
        table[f"rate_{k}"] = Quantity(accepted / judged, "1", n=judged)
        table[f"conditional_{k}"] = (
            Quantity(accepted / reached, "1", n=reached)
            if reached
            else nothing(f"position {k} was never reached", "1")
        )
    return {name: _noted(quantity, traces) for name, quantity in table.items()}


def k_effective(traces: Sequence[Trace]) -> Quantity:
    """Longest path that was verified in one step, whatever was configured."""
    missing = absent(traces, "tokens")
    if missing is not None:
        return missing
    kept = stepped(traces)
    # The verified depth of a step that was cut is not kept; of a chain it is the nodes.
    largest = max(chain.from_iterable(t.steps.depth or t.steps.verified for t in kept))
    if largest == 0:
        return nothing(NOTHING_DRAFTED, "tokens")
    return _noted(Quantity(float(largest), "tokens", n=len(kept)), traces)


def tokens_outside_steps(traces: Sequence[Trace]) -> Quantity:
    """Output tokens that no decode step committed: of each request those of its prefill.

    That is one, and more where the engine verifies a first draft together with the prompt.
    """
    kept = stepped(traces)
    if not kept:
        return absent(traces, "tokens") or nothing("no finished request", "tokens")
    outside = sum(output_tokens(trace) - _committed(trace) for trace in kept)
    return _noted(Quantity(float(outside), "tokens", n=len(kept)), traces)


def stepped(traces: Sequence[Trace]) -> list[Trace]:
    """The finished requests whose decode steps are known, be there none."""
    return [trace for trace in finished(traces) if trace.granularity is Granularity.STEP]


def absent(traces: Sequence[Trace], unit: str) -> Quantity | None:
    """Why these traces hold no decode steps, or None where they do."""
    kept = finished(traces)
    if not kept:
        return nothing("no finished request", unit)
    if any(len(trace.steps) for trace in stepped(traces)):
        return None
    coarse = {str(t.granularity) for t in kept if t.granularity is not Granularity.STEP}
    if coarse:
        seen = " and ".join(sorted(coarse))
        return unavailable(f"counters not exposed: the engine shows only each {seen}", unit)
    return nothing("no decode steps", unit)


def pooled(
    traces: Sequence[Trace],
    top: Count,
    bottom: Count,
    unit: str,
    seed: int,
    empty: str = "no decode steps",
) -> Quantity:
    """sum(top) / sum(bottom) over the finished requests with steps; resamples prompts."""
    missing = absent(traces, unit)
    if missing is not None:
        return missing
    kept = stepped(traces)
    found = total_ratio(
        item_sums(kept, top), item_sums(kept, bottom), seed=seed, unit=unit, empty=empty
    )
    return _noted(found, traces)


def _noted(quantity: Quantity, traces: Sequence[Trace]) -> Quantity:
    """A known quantity with a word about the requests whose steps are not known."""
    total = len(finished(traces))
    without = total - len(stepped(traces))
    if not (without and quantity.known):
        return quantity
    word = f"{without} of {total} requests left out: no steps"
    return replace(quantity, method="; ".join(filter(None, (quantity.method, word))))


def _steps(trace: Trace) -> float:
    return len(trace.steps)


def _committed(trace: Trace) -> float:
    return sum(trace.steps.committed)


def _accepted(trace: Trace) -> float:
    return sum(trace.steps.accepted)


def _judged(trace: Trace) -> float:
    return sum(trace.steps.judged)


def _verified(trace: Trace) -> float:
    return sum(trace.steps.verified)


def _drafted_steps(trace: Trace) -> float:
    return sum(verified > 0 for verified in trace.steps.verified)
