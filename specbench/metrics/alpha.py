"""Acceptance per draft position: measured from the two laws, and equivalent if independent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Trace
from specbench.metrics.acceptance import NOTHING_DRAFTED, absent, accepted_mean, k_effective, pooled
from specbench.metrics.timeline import finished
from specbench.stats.independent import iid_root


def alpha(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Mean of sum min(target, draft) over visited draft positions (Rao-Blackwell estimate)."""
    missing = absent(traces, "1")
    if missing is not None:
        return missing
    kept = finished(traces)
    if not any(sum(trace.steps.judged) for trace in kept):
        return nothing(NOTHING_DRAFTED, "1")
    if not any(map(overlaps, kept)):
        return unavailable(
            "no draft and target probabilities recorded; at temperature 0 there are none", "1"
        )
    return pooled(traces, lambda trace: sum(overlaps(trace)), lambda t: len(overlaps(t)), "1", seed)


def alpha_iid(traces: Sequence[Trace], *, seed: int) -> Quantity:
    """Acceptance that would give this ``accepted_mean`` if positions were independent.

    K is ``k_effective``. Monotone in ``accepted_mean``, whose interval is carried over.
    """
    mean, k = accepted_mean(traces, seed=seed), k_effective(traces)
    if not mean.known:
        return replace(mean, unit="1")
    if not k.known:
        return nothing(NOTHING_DRAFTED, "1")
    longest = int(k.number())
    bounds = [
        None if bound is None else iid_root(min(max(bound, 0.0), longest), longest)
        for bound in (mean.low, mean.high)
    ]
    value = iid_root(mean.number(), longest)
    return replace(mean, value=value, unit="1", low=bounds[0], high=bounds[1])


def overlaps(trace: Trace) -> list[float]:
    """Sum of min(target, draft) at each draft position that was visited and has both laws."""
    evidence = trace.evidence
    return [
        overlap
        for overlap, drafted in zip(evidence.overlap, evidence.drafted, strict=True)
        if drafted and overlap is not None
    ]
