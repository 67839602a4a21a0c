"""Drafts that never help, always help, or are shorter than what was asked for (H5, H9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specbench.core.trace import Granularity, Tally, Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished
from specbench.metrics.totals import tally_of

INERT_DRAFTED = 50
FULL_ROUNDS = 100
FEWEST_FOR_K = 50
"""Drafted steps below which a draft of full length may just not have come up."""


@dataclass(slots=True)
class _Counts:
    """Draft tokens of a cell: sent, judged, accepted, and the steps that had any.

    Of a tree only the longest path counts: that is all that can be accepted of it.
    """

    drafted: int = 0
    judged: int = 0
    accepted: int = 0
    rounds: int = 0

    def steps(self, trace: Trace) -> None:
        steps = trace.steps
        self.drafted += sum(steps.depth or steps.verified)
        self.judged += sum(steps.depths)
        self.accepted += sum(steps.accepted)
        self.rounds += sum(judged > 0 for judged in steps.judged)

    def tally(self, tally: Tally) -> None:
        """Totals do not say what was judged: all that was sent, unless the output ended inside."""
        if tally.verified is not None and tally.accepted is not None:
            self.drafted += tally.verified
            self.judged += tally.verified
            self.accepted += tally.accepted
            self.rounds += tally.drafted_steps or 0


def draft_guards(arm: Sequence[Trace], around: Around, draft_is_target: bool) -> Iterator[Guard]:
    """From steps where they are known, else from the totals of requests or counters."""
    counts = _counted(finished(arm), around)
    if counts.accepted == 0 and counts.drafted >= INERT_DRAFTED:
        yield Guard(
            "draft_inert",
            f"0 of {counts.drafted} drafted tokens were accepted",
            "check the draft's weights, quantisation and vocabulary map",
        )
    full = counts.accepted == counts.judged and counts.rounds >= FULL_ROUNDS
    if full and not draft_is_target:
        yield Guard(
            "suspicious_full",
            f"all {counts.judged} judged tokens of {counts.rounds} drafted steps were accepted",
            "check the counter, that the draft is not the target, and that it is quantised where "
            "that was asked for",
        )
    yield from _shorter(finished(arm), around.k)


def _counted(kept: Sequence[Trace], around: Around) -> _Counts:
    counts = _Counts()
    for trace in kept:
        if trace.granularity is Granularity.STEP:
            counts.steps(trace)
        elif (told := tally_of(trace)) is not None:
            counts.tally(told)
    for window in around.windows:
        if window.tally is not None:
            counts.tally(window.tally)
    return counts


def _shorter(kept: Sequence[Trace], k: int) -> Iterator[Guard]:
    drafted = [n for t in kept for n in t.steps.depth or t.steps.verified if n]
    if k and len(drafted) >= FEWEST_FOR_K and max(drafted) < k:
        yield Guard(
            "k_effective",
            f"k = {k} was asked for, at most {max(drafted)} tokens were drafted in any of "
            f"{len(drafted)} steps",
            f"read the figures as those of k = {max(drafted)}; check that k reaches the drafter",
        )
