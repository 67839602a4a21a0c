"""A recorded request while drafts are scored on it, and what is known of each draft so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.core.request import Request
from specbench.core.trace import Finish
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import token_cap
from specbench.engines.drafts.judged import Judged
from specbench.engines.drafts.walk import Walk
from specbench.engines.recorded import recorded_sequence
from specbench.metrics.replayed import DraftScore, ReplayedRequest, Steps


@dataclass(frozen=True, slots=True)
class Recording:
    """What was asked and what came out.

    Attributes:
        request: with the limits under which it was decoded; they bound the drafts near the end.
        output: recorded token ids.
    """

    request: Request
    output: tuple[int, ...]

    @property
    def length(self) -> int:
        """Tokens of prompt and output."""
        return len(self.request.token_ids) + len(self.output)

    @property
    def cap(self) -> int:
        """Output tokens that the limits allow, and at least those that were recorded."""
        return max(token_cap(self.request.limits, len(self.request.token_ids)), len(self.output))


class Tracked:
    """One draft on one request.

    Args:
        ks: longest drafts, ascending.
        output: of the record.
        vocabulary: ids that the draft can propose; None = all.
        cut: whether a shorter draft is the beginning of a longer one.
    """

    def __init__(
        self,
        ks: Sequence[int],
        output: Sequence[int],
        vocabulary: frozenset[int] | None,
        cut: bool,
    ) -> None:
        self.walks = {k: Walk(k, len(output)) for k in ks}
        outside = 0 if vocabulary is None else sum(token not in vocabulary for token in output)
        zeros = [0.0] * ks[-1]
        self._score = DraftScore(overlap=zeros, reached=[*zeros], outside=outside, cut=cut)

    def look(self, judged: Judged, nodes: int) -> None:
        """Count one place: the longest draft there and its nodes."""
        self._score.places += 1
        self._score.empty += not nodes
        weight = 1.0
        for depth, overlap in enumerate(judged.overlaps):
            self._score.overlap[depth] += weight * overlap
            self._score.reached[depth] += weight
            weight *= judged.chances[depth]

    def score(self) -> DraftScore:
        """What was found."""
        self._score.steps = {
            k: Steps(walk.steps, tuple(walk.accepted)) for k, walk in self.walks.items()
        }
        return self._score


@dataclass(slots=True, eq=False)
class Flight:
    """A request in the batch.

    Attributes:
        number: place among the recordings.
        row: the sequence that drafters see.
        drafts: by name.
        foreign: tokens so far that the target would not have emitted.
        failed: why it is left out; empty while it is not.
    """

    number: int
    recording: Recording
    row: DecodedSequence
    drafts: dict[str, Tracked]
    foreign: int = 0
    failed: str = ""

    @property
    def place(self) -> int:
        """Output tokens committed."""
        return self.row.length - self.row.prompt_length

    @property
    def over(self) -> bool:
        """Whether nothing is left to draft or to count."""
        return bool(self.failed) or self.place >= len(self.recording.output)

    def ahead(self, count: int) -> tuple[int, ...]:
        """The next recorded tokens, at most ``count``."""
        return self.recording.output[self.place : self.place + count]

    def land(self) -> None:
        """Say how it ended, for drafters that learn from whole answers."""
        if not self.over or self.failed:
            self.row.finish = self.row.trace.finish = Finish.ERROR
        elif self.row.finish is None:
            self.row.finish = self.row.trace.finish = Finish.EOS

    def result(self) -> ReplayedRequest:
        """What was found, once it is over."""
        return ReplayedRequest(
            self.recording.request.key,
            max(len(self.recording.output) - 1, 0),
            self.foreign,
            {name: tracked.score() for name, tracked in self.drafts.items()},
        )


def begin(number: int, recording: Recording, slab: int, drafts: dict[str, Tracked]) -> Flight:
    """A request before its prefill."""
    row = recorded_sequence(recording.request, recording.cap, slab)
    return Flight(number, recording, row, drafts)
