"""Acceptance of engines that show no steps: from totals per request, or from counter windows.

Only what the totals support is computed; the rest keeps its reason (cases C6, C7). ``method``
names the source and its weakness, since these numbers are not those of ``metrics.acceptance``: a
server's "accepted" has drafts in it that lie behind the end of the output.
"""

from __future__ import annotations

import math
from dataclasses import replace

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Tally
from specbench.metrics.acceptance import LENGTH, NOTHING_DRAFTED
from specbench.metrics.totals import Count, Totals, knowing
from specbench.metrics.units import sums
from specbench.stats.bootstrap import total_ratio

WINDOWS_ONLY = "counters cover whole windows and not single requests"


def rows(found: Totals | Quantity, *, seed: int) -> dict[str, Quantity]:
    """Metric -> quantity for every pooled acceptance metric; missing ones with their reason."""
    if isinstance(found, Quantity):
        missing = {name: replace(found, unit=unit) for name, (_, _, unit) in _RATIOS.items()}
        return missing | {"accept_length_macro": replace(found, unit=LENGTH)}
    table = {
        name: _ratio(found, top, bottom, unit, seed)
        for name, (top, bottom, unit) in _RATIOS.items()
    }
    table["accept_length_macro"] = _macro(found, seed)
    return table


def k_effective(found: Totals | Quantity) -> Quantity:
    """Smallest K that explains the totals, tokens: the longest draft was at least as long."""
    if isinstance(found, Quantity):
        return replace(found, unit="tokens")
    known = knowing(found, _drafted_steps, _verified)
    if known is None:
        return _unsaid(found, "tokens")
    steps, verified = _sum(known, _drafted_steps), _sum(known, _verified)
    if not steps or not verified:
        return nothing(NOTHING_DRAFTED, "tokens")
    longest = max(math.ceil(verified / steps), len(_accepted_at(known)))
    method = f"at least this many; {known.method}"
    return Quantity(float(longest), "tokens", n=len(known.rows), method=method)


def accept_pos(found: Totals | Quantity) -> dict[str, Quantity]:
    """``reached_k``, ``accepted_k``, ``rate_k`` and ``conditional_k`` per draft position.

    How many steps drafted position k is not told, so that ``rate_k`` is per step with a draft and
    thus too low where drafts are shorter than K (ALGORITHMS 2.3, vLLM's meaning).
    """
    if isinstance(found, Quantity):
        return {"rate_1": found}
    known = knowing(found, _drafted_steps, _positions)
    if known is None:
        return {"rate_1": _unsaid(found, "1")}
    steps = _sum(known, _drafted_steps)
    if not steps:
        return {"rate_1": nothing(NOTHING_DRAFTED, "1")}
    table: dict[str, Quantity] = {}
    reached = steps
    for k, accepted in enumerate(_accepted_at(known) or [0], start=1):
        for name, count in (("reached", reached), ("accepted", accepted)):
            table[f"{name}_{k}"] = Quantity(float(count), "steps", n=steps, method=known.method)
        table[f"rate_{k}"] = Quantity(accepted / steps, "1", n=steps, method=known.method)
        given = accepted / reached
        table[f"conditional_{k}"] = Quantity(given, "1", n=reached, method=known.method)
        reached = accepted
    return table


def _steps(tally: Tally) -> int | None:
    return tally.steps


def _drafted_steps(tally: Tally) -> int | None:
    return tally.drafted_steps


def _verified(tally: Tally) -> int | None:
    return tally.verified


def _accepted(tally: Tally) -> int | None:
    return tally.accepted


def _committed(tally: Tally) -> int | None:
    return tally.committed


def _wasted(tally: Tally) -> int | None:
    known = tally.verified is not None and tally.accepted is not None
    return (tally.verified or 0) - (tally.accepted or 0) if known else None


def _given(tally: Tally) -> int | None:
    """Tokens that steps with a draft gave, whatever the end cut: 1 + accepted each."""
    known = tally.drafted_steps is not None and tally.accepted is not None
    return (tally.drafted_steps or 0) + (tally.accepted or 0) if known else None


def _positions(tally: Tally) -> int | None:
    """How deep positions are told; None where some were accepted and none is told."""
    return None if tally.accepted != 0 and not tally.accepted_at else len(tally.accepted_at)


_RATIOS: dict[str, tuple[Count, Count, str]] = {
    "accept_length": (_committed, _steps, LENGTH),
    "accept_length_drafted": (_given, _drafted_steps, LENGTH),
    "draft_coverage": (_drafted_steps, _steps, "1"),
    "accepted_mean": (_accepted, _steps, LENGTH),
    "accept_rate": (_accepted, _verified, "1"),
    "waste": (_wasted, _verified, "1"),
    "drafted_per_token": (_verified, _committed, "1"),
}


def _ratio(found: Totals, top: Count, bottom: Count, unit: str, seed: int) -> Quantity:
    known = knowing(found, top, bottom)
    if known is None:
        return _unsaid(found, unit)
    labels = [label for label, _ in known.rows]
    ratio = total_ratio(
        sums(labels, [float(top(tally) or 0) for _, tally in known.rows]),
        sums(labels, [float(bottom(tally) or 0) for _, tally in known.rows]),
        seed=seed,
        unit=unit,
        empty=NOTHING_DRAFTED if bottom in (_verified, _drafted_steps) else "no decode steps",
    )
    return replace(ratio, method=f"{ratio.method}; {known.method}") if ratio.known else ratio


def _macro(found: Totals, seed: int) -> Quantity:
    """Mean over requests of the accept length of each."""
    if not found.per_request:
        return unavailable(WINDOWS_ONLY, LENGTH)
    told = [(label, t) for label, t in found.rows if t.steps and t.committed is not None]
    if not told:
        return _unsaid(found, LENGTH)
    labels = [label for label, _ in told]
    each = [(t.committed or 0) / (t.steps or 1) for _, t in told]
    mean = total_ratio(sums(labels, each), sums(labels, [1.0] * len(each)), seed=seed, unit=LENGTH)
    return replace(mean, method=f"{mean.method}; {found.method}")


def _sum(found: Totals, count: Count) -> int:
    return sum(count(tally) or 0 for _, tally in found.rows)


def _accepted_at(found: Totals) -> list[int]:
    """Steps that accepted at least 1, 2, ... draft tokens, as deep as any did."""
    deepest = max((len(tally.accepted_at) for _, tally in found.rows), default=0)
    totals = [
        sum(tally.accepted_at[k] for _, tally in found.rows if k < len(tally.accepted_at))
        for k in range(deepest)
    ]
    while totals and not totals[-1]:
        totals.pop()
    return totals


def _unsaid(found: Totals, unit: str) -> Quantity:
    return unavailable(f"not told by {found.method}", unit)
