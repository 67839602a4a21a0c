"""Totals of speculation as they come in: kept where they can be true, else the reason is kept."""

from __future__ import annotations

from dataclasses import fields

from specbench.core.trace import Steps, Tally
from specbench.metrics.identities import tally_violations

LISTED = "steps that the server listed"


def credible(tally: Tally, output_tokens: int) -> Tally:
    """The tally, or one of the same source without counts whose note says what contradicts what.

    Args:
        output_tokens: of the request, that of the prefill and the end token included.
    """
    reason = _contradiction(tally, output_tokens)
    return Tally(tally.source, note=f"totals dropped: {reason}") if reason else tally


def tells(tally: Tally | None) -> bool:
    """Whether a tally counts anything."""
    return tally is not None and any(value is not None for _, value in _counts(tally))


def from_steps(steps: Steps, output_tokens: int) -> Tally:
    """Totals of steps that cannot stand for themselves: the answer is whole, or they do not add up.

    Args:
        output_tokens: as in ``credible``.
    """
    given = 1 + sum(steps.committed)
    fits = given == output_tokens
    deepest = max(steps.accepted, default=0)
    note = "" if fits else f"the steps give {given} tokens, the output has {output_tokens}"
    return Tally(
        source=LISTED,
        steps=len(steps),
        drafted_steps=sum(1 for verified in steps.verified if verified),
        verified=sum(steps.verified),
        accepted=sum(steps.accepted),
        committed=sum(steps.committed) if fits else None,
        accepted_at=[sum(n >= k for n in steps.accepted) for k in range(1, deepest + 1)],
        note=note,
    )


def _contradiction(tally: Tally, output_tokens: int) -> str:
    """Why these totals cannot be those of this output; empty where they can."""
    counts = dict(_counts(tally))
    negative = [name for name, value in counts.items() if value is not None and value < 0]
    if negative or any(value < 0 for value in tally.accepted_at):
        return f"{negative[0] if negative else 'accepted_at'} is negative"
    behind = max(output_tokens - 1, 0)
    for name in ("steps", "committed"):
        value = counts[name]
        if value is not None and value > behind:
            return f"{name} {value}, but {behind} tokens behind the prefill's"
    steps, accepted, committed = tally.steps, tally.accepted, tally.committed
    # A step gives one token more than it accepts.
    if None not in (steps, accepted, committed) and committed > steps + accepted:  # type: ignore[operator]
        return f"{committed} tokens of {steps} steps that accepted {accepted}"
    if tally.accepted_at and tally.steps is not None and tally.accepted_at[0] > tally.steps:
        return f"{tally.accepted_at[0]} steps accepted a draft, of {tally.steps}"
    return next(tally_violations(tally), "")


def _counts(tally: Tally) -> list[tuple[str, int | None]]:
    return [
        (field.name, getattr(tally, field.name))
        for field in fields(Tally)
        if field.name not in ("source", "note", "accepted_at")
    ]
