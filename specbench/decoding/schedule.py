"""When the host learns a step's outcome, and what the device does meanwhile.

In order, the outcome is read first and the drafter keeps up with it. Overlapped, the copy of the
outcome is queued behind the acceptance and the drafter's next pass behind the copy: the host waits
for the copy alone, and what it then does (stops, text, the plan of the next forward) is hidden
behind that pass. The tokens are the same either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from torch import Tensor

from specbench.decoding.outcome import Outcome, Read, outcome, outcome_later
from specbench.decoding.protocols import Acceptance, Draft, Drafter, Tap
from specbench.decoding.rows import BrokenRowsError, TargetRows, refuse_broken
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import to_host

Rows = Sequence[DecodedSequence]
Taps = Mapping[Tap, Tensor]


class RunsAhead(Protocol):
    """A drafter that can take in a step before the host knows how much of it was accepted."""

    def ahead(self, rows: Rows, draft: Draft, acceptance: Acceptance, taps: Taps) -> bool:
        """Queue the pass that follows the acceptance, whatever it says; nothing is kept yet.

        False where this step is one that must be known first; then ``observe`` follows.
        """
        ...

    def catch_up(self, rows: Rows, seen: Outcome) -> None:
        """Keep what was queued, now that the outcome is known; in the place of ``observe``."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """A step from its draft to its verdict, both where they were made.

    Attributes:
        rows: the batch.
        draft: what was verified.
        target_rows: what it was judged by.
        acceptance: the verdict.
        taps: hidden states of the verified rows.
    """

    rows: Rows
    draft: Draft
    target_rows: TargetRows
    acceptance: Acceptance
    taps: Taps


class Schedule(Protocol):
    """How a step goes on from the target's rows."""

    def verified(self, draft: Draft, rows: TargetRows) -> None:
        """Look at the rows before they are judged, if it is time. Raises ``BrokenRowsError``."""
        ...

    def refill(self, drafter: Drafter, step: Judged) -> Outcome:
        """Learn the outcome and let the drafter keep up with it. Raises ``BrokenRowsError``."""
        ...


@dataclass(frozen=True, slots=True)
class InOrder:
    """One thing after the other."""

    def verified(self, draft: Draft, rows: TargetRows) -> None:
        """Broken rows are not judged."""
        if draft.sound is not None:
            broken = [b for b, fine in enumerate(draft.sound.tolist()) if not fine]
            if broken:
                raise BrokenRowsError(broken, "draft")
        refuse_broken(rows)

    def refill(self, drafter: Drafter, step: Judged) -> Outcome:
        """Read, then refill."""
        seen = outcome(step.draft, step.acceptance)
        _observe(drafter, step, seen)
        return seen


IN_ORDER = InOrder()


@dataclass(frozen=True, slots=True)
class Overlapped:
    """The reading is hidden behind the drafter's pass, where the drafter can run ahead of it.

    Args:
        read: starts a copy to the host.
    """

    read: Read = to_host

    def verified(self, draft: Draft, rows: TargetRows) -> None:
        """Rows of trees are walked on the host, which must not meet a NaN; others can wait."""
        if not draft.tree.chain:
            refuse_broken(rows)

    def refill(self, drafter: Drafter, step: Judged) -> Outcome:
        """Queue the copy, then the pass, then wait for the copy."""
        waiting = outcome_later(step.draft, step.acceptance, step.target_rows.sound(), self.read)
        # A method that most drafters do not have: one that looks words up has no pass to queue.
        runner = cast(RunsAhead, drafter) if hasattr(drafter, "ahead") else None
        gone = runner is not None and runner.ahead(
            step.rows, step.draft, step.acceptance, step.taps
        )
        seen = waiting()
        if runner is not None and gone:
            runner.catch_up(step.rows, seen)
        else:
            _observe(drafter, step, seen)
        return seen


def _observe(drafter: Drafter, step: Judged, seen: Outcome) -> None:
    """Let the drafter keep up with what is known."""
    drafter.observe(step.rows, seen.draft, step.target_rows.places, seen.acceptance, step.taps)
