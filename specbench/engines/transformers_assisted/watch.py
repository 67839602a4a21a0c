"""Watching one call of ``generate``: what was drafted, what came of it, and when.

A stopping criterion is called after every iteration with all ids so far, with and without an
assistant; it also ends the output where our stops say so, which the library checks only behind a
whole block. Drafts are seen through the candidate generator's ``get_candidates``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria

from specbench.core.trace import Cut, Finish, ShortDraft, TickKind, Trace
from specbench.decoding.stops import StopChecker
from specbench.decoding.timing import TickRecorder

Candidates = Callable[..., tuple[Tensor, Any]]


class Watch(StoppingCriteria):
    """Writes the trace of one request while ``generate`` runs.

    Args:
        trace: gets ids, arrivals, steps and the finish.
        stops: where the output ends.
        recorder: ticks and their spans; its clock times the arrivals.
        k: configured draft length, to tell short drafts.
        looks_up: whether the drafter may find nothing (prompt lookup).
    """

    def __init__(
        self, trace: Trace, stops: StopChecker, recorder: TickRecorder, k: int, looks_up: bool
    ) -> None:
        self._trace = trace
        self._stops = stops
        self._recorder = recorder
        self._k = k
        self._looks_up = looks_up
        self._length = trace.prompt_tokens
        self._drafted: list[int] = []
        self.finish: Finish | None = None

    def start(self) -> None:
        """Start the clock of the request; its first iteration reads the prompt."""
        self._recorder.begin(TickKind.PREFILL)
        self._trace.start_ns = self._recorder.now()

    def around(self, get_candidates: Candidates) -> Candidates:
        """``get_candidates`` of a candidate generator, noting what it drafts and how long."""

        def seen(input_ids: Tensor, **further: Any) -> tuple[Tensor, Any]:
            with self._recorder.span("draft"):
                candidates, logits = get_candidates(input_ids, **further)
                self._drafted = candidates[0, input_ids.shape[1] :].tolist()
            return candidates, logits

        return seen

    def __call__(self, input_ids: Tensor, scores: Any, **further: Any) -> Tensor:
        """Note the tokens of the iteration that just ended; True [1] where the output ends."""
        if self.finish is None:
            tokens = input_ids[0, self._length :].tolist()
            self._length += len(tokens)
            self._iteration(tokens)
        over = self.finish is not None
        return torch.full((input_ids.shape[0],), over, dtype=torch.bool, device=input_ids.device)

    def _iteration(self, tokens: Sequence[int]) -> None:
        recorder, trace = self._recorder, self._trace
        first = not len(trace.arrivals)
        now = recorder.now()
        # The library's forward is over: a span lasts from the end of the one before until now.
        with recorder.span("prefill" if first else "verify"):
            pass
        room = self._stops.cap - len(trace.output_ids) - 1
        with recorder.span("commit"):
            kept = self._keep(tokens)
        if not first:
            self._count(tokens, kept, room)
        trace.arrivals.t_ns.append(now)
        trace.arrivals.tokens.append(kept)
        fed = (trace.prompt_tokens if first else 1) + len(self._drafted)
        recorder.end(1, fed)
        self._drafted = []
        recorder.begin(TickKind.DECODE)

    def _keep(self, tokens: Sequence[int]) -> int:
        for count, token in enumerate(tokens, 1):
            self._trace.output_ids.append(token)
            self.finish = self._stops.push(token)
            if self.finish is not None:
                self._trace.finish = self.finish
                return count
        return len(tokens)

    def _count(self, tokens: Sequence[int], kept: int, room: int) -> None:
        """Append one step (METRICS).

        The library cuts a run at an end token and at the cap and then counts one match too few;
        the tokens themselves tell how many drafts were taken.
        """
        steps, verified = self._trace.steps, len(self._drafted)
        accepted = agreed(tokens, self._drafted)
        cut = kept < accepted + 1
        steps.tick.append(self._recorder.index)
        steps.proposed.append(verified)
        steps.verified.append(verified)
        # Drafts behind a stop were never judged: neither accepted nor rejected.
        steps.judged.append(kept if cut else verified)
        steps.accepted.append(min(accepted, kept))
        steps.committed.append(kept)
        steps.cut.append(Cut(self.finish.value) if cut and self.finish else Cut.NONE)
        steps.short_draft.append(self._short(verified, room))

    def _short(self, verified: int, room: int) -> ShortDraft:
        if self._k == 0:
            return ShortDraft.OFF
        if verified >= self._k:
            return ShortDraft.NONE
        if verified >= room:
            return ShortDraft.LIMIT
        if self._looks_up and verified == 0:
            return ShortDraft.NO_MATCH
        return ShortDraft.DRAFTER_STOPPED


def agreed(tokens: Sequence[int], drafted: Sequence[int]) -> int:
    """How many tokens at the start of both are the same."""
    count = 0
    for token, draft in zip(tokens, drafted, strict=False):
        if token != draft:
            break
        count += 1
    return count


@contextmanager
def drafts_seen(model: Any, watch: Watch) -> Iterator[None]:
    """Let ``watch`` see the drafts of every candidate generator that ``model`` makes.

    ``generate`` takes no generator from outside, so the method that makes one is covered on this
    one model while the request runs; the generator stays the library's own object.
    """
    make = model._get_candidate_generator

    def watched(*positional: Any, **named: Any) -> Any:
        generator = make(*positional, **named)
        generator.get_candidates = watch.around(generator.get_candidates)
        return generator

    model._get_candidate_generator = watched
    try:
        yield
    finally:
        del model._get_candidate_generator
