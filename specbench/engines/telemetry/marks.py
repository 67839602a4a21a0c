"""Decode steps from cumulative counters that a server repeats with every token it streams.

A step accepts ``a`` draft tokens and gives ``a + 1`` tokens to the request, less what the end of
the output cuts (METRICS, "step"). Tokens are therefore placed by what was accepted and not by the
event that showed them: a server holds back the first tokens of a character of several tokens and
shows them with a token of the next step.

The end token is the weak point. llama.cpp leaves an accepted draft that is the end token out of
its count, so that "the draft brought the end" and "the draft was rejected and the target's own
token was the end" have the same numbers. Drafts behind what was accepted count as not judged in
such a step: ``accept_rate`` leaves out one verdict per request at most, and ``committed`` is right
either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from specbench.core.trace import Cut, Finish, ShortDraft, Steps
from specbench.engines.http.piece import Mark

_CUTS = {Finish.EOS: Cut.EOS, Finish.STOP: Cut.STOP, Finish.LENGTH: Cut.LENGTH}


def steps_from_marks(marks: Sequence[Mark], finish: Finish) -> Steps | None:
    """The decode steps of one request, or None where the marks contradict each other.

    Args:
        marks: every mark of the request in order, that of its last event included.
        finish: why the output ended; names the cut of a step whose end was lost.

    Returns:
        Steps numbered from 0, since ticks cannot be seen; ``proposed`` equals ``verified``. Empty
        where the prefill's token was the only one. None where counters fall, where a step gave
        more tokens than it can have accepted, or where it cannot be told which step drafted what.
    """
    groups = _last_of_each_clock(marks)
    if groups is None:
        return None
    steps, placed, lagged = Steps(), 1, False
    verified = accepted = 0
    for index, mark in enumerate(groups):
        new_verified = (mark.verified or 0) - verified
        new_accepted = (mark.accepted or 0) - accepted
        if index and mark.tokens <= placed:
            return None
        if new_verified:
            count, size = 1, new_accepted + 1
        else:
            count, size = mark.tokens - placed, 1
        if new_accepted > new_verified or mark.tokens > placed + count * size:
            return None
        for _ in range(count):
            _append(steps, new_verified, new_accepted)
        placed += count * size
        lagged = lagged or (index < len(groups) - 1 and mark.tokens < placed)
        verified, accepted = verified + new_verified, accepted + new_accepted
    lost = placed - groups[-1].tokens
    # What was hidden before may hide a step, and then the size of the cut is a guess.
    if lost and (lagged or not _cut_last(steps, lost, finish)):
        return None
    if not lost and finish is Finish.EOS and len(steps):
        # See the module: accepted and cut by the end, or rejected for it.
        steps.judged[-1] = steps.accepted[-1]
    _name_short_drafts(steps, finish)
    return steps


def _last_of_each_clock(marks: Sequence[Mark]) -> list[Mark] | None:
    """The last mark of every step in order; None where there is none or a counter falls."""
    filled = list(_filled(marks))
    if not filled or filled[0].tokens < 1:
        return None
    rows = [(mark.tokens, mark.verified or 0, mark.accepted or 0) for mark in filled]
    for earlier, later in pairwise(rows):
        if any(new < old for old, new in zip(earlier, later, strict=True)):
            return None
    return [list(group)[-1] for _, group in groupby(filled, key=lambda mark: mark.clock)]


def _filled(marks: Sequence[Mark]) -> Iterator[Mark]:
    """The marks, with counters that one does not repeat taken from the mark before."""
    verified = accepted = 0
    for mark in marks:
        verified = verified if mark.verified is None else mark.verified
        accepted = accepted if mark.accepted is None else mark.accepted
        yield Mark(mark.tokens, verified, accepted, mark.clock)


def _append(steps: Steps, verified: int, accepted: int) -> None:
    steps.tick.append(len(steps))
    steps.proposed.append(verified)
    steps.verified.append(verified)
    steps.judged.append(verified)
    steps.accepted.append(accepted)
    steps.committed.append(accepted + 1)
    steps.cut.append(Cut.NONE)
    steps.short_draft.append(ShortDraft.NONE)


def _cut_last(steps: Steps, lost: int, finish: Finish) -> bool:
    """Take the lost tokens from the last step; False where it has not that many to lose."""
    kept = steps.committed[-1] - lost if len(steps) else 0
    if kept < 1 or finish not in _CUTS:
        return False
    # Drafts behind the end were never judged: neither accepted nor rejected.
    steps.committed[-1] = steps.judged[-1] = kept
    steps.accepted[-1] = min(steps.accepted[-1], kept)
    steps.cut[-1] = _CUTS[finish]
    return True


def _name_short_drafts(steps: Steps, finish: Finish) -> None:
    """Say why steps verified no draft, as far as that can be told from outside."""
    drafting = any(steps.verified)
    last = len(steps) - 1
    for index, verified in enumerate(steps.verified):
        if verified:
            continue
        if not drafting:
            steps.short_draft[index] = ShortDraft.OFF
        elif index == last and finish is Finish.LENGTH:
            steps.short_draft[index] = ShortDraft.LIMIT
        else:
            steps.short_draft[index] = ShortDraft.NO_MATCH
