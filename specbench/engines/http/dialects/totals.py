"""Speculation in our definitions, from the totals and lists that servers give."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.trace import Cut, ShortDraft, Steps, Tally


def tally(
    source: str,
    note: str,
    *,
    tokens: int | None,
    requests: int = 1,
    drafted_steps: int | None = None,
    verified: int | None = None,
    accepted: int | None = None,
    accepted_at: Sequence[int] = (),
) -> Tally:
    """A tally in our definitions (METRICS, "step"); what the server does not say stays None.

    Args:
        source, note: for the reader.
        tokens: output tokens, those of the prefills and end tokens included.
        requests: how many requests they belong to; each has one token of its prefill.
        drafted_steps: steps that verified a draft, as the server counts them.
        verified, accepted: draft tokens.
        accepted_at: steps that accepted at least 1, 2, ... draft tokens.
    """
    committed = None if tokens is None else max(tokens - requests, 0)
    steps = drafted_steps
    if committed is None:
        steps = None
    elif drafted_steps is not None and (accepted is not None or not drafted_steps):
        # A step gives one token more than it accepts; what is left over came without a draft.
        steps = drafted_steps + max(committed - (accepted or 0) - drafted_steps, 0)
    return Tally(
        source=source,
        note=note,
        steps=steps,
        drafted_steps=drafted_steps,
        verified=verified,
        accepted=accepted,
        committed=committed,
        accepted_at=list(accepted_at),
    )


def at_least(histogram: Sequence[int] | None) -> list[int]:
    """Steps that accepted at least 1, 2, ... from those that accepted exactly 0, 1, ..."""
    return [sum((histogram or ())[depth:]) for depth in range(1, len(histogram or ()))]


def listed_steps(
    accepted: Sequence[int], drafted: Sequence[int], tokens: int | None
) -> Steps | None:
    """Steps from per-step lists of a server that lists only steps with a draft.

    Args:
        accepted, drafted: draft tokens per step.
        tokens: output tokens, that of the prefill and the end token included.

    Returns:
        None where the lists contradict each other, or where steps without a draft lie somewhere
        between them. An end inside the last step is named LENGTH, since the lists do not say why.
    """
    sizes_match = len(accepted) == len(drafted)
    if tokens is None or not sizes_match or any(map(int.__gt__, accepted, drafted)):
        return None
    committed = [count + 1 for count in accepted]
    judged, kept = list(drafted), list(accepted)
    cuts: list[str] = [Cut.NONE] * len(committed)
    lost = sum(committed) - (tokens - 1)
    if lost < 0 or (lost and lost >= committed[-1]):
        return None
    if lost:
        committed[-1] -= lost
        judged[-1] = committed[-1]
        kept[-1] = min(kept[-1], committed[-1])
        cuts[-1] = Cut.LENGTH
    return Steps(
        tick=list(range(len(committed))),
        proposed=list(drafted),
        verified=list(drafted),
        judged=judged,
        accepted=kept,
        committed=committed,
        cut=cuts,
        short_draft=[ShortDraft.NONE] * len(committed),
    )
