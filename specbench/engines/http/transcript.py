"""From the events of an answer, with their times, to what a trace says about it.

First token is the first event with a token of any kind, last token the last such event: roles,
empty deltas and counts on their own are neither (cases D1 to D4, D8, C8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specbench.core.request import GREEDY_BELOW, Request
from specbench.core.trace import Arrivals, Cut, Finish, Granularity, Trace
from specbench.engines.http.counting import Count, TokenStarts, count_tokens
from specbench.engines.http.piece import Piece
from specbench.engines.http.received_totals import credible, from_steps
from specbench.engines.telemetry.marks import steps_from_marks

SINGLE = 1e-6
"""Relative difference that a float32 on the way makes; no difference of settings."""

SEED_MASKS = (0xFFFFFFFF, 0x7FFFFFFF)
"""Servers with seeds of 32 or 31 bits get the low bits of ours."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it was read.

    Attributes:
        events: (arrival in ns, what it says), in order.
        whole: it came in one piece instead of a stream.
        broken: why it could not be read to its end; empty where it could.
    """

    events: Sequence[tuple[int, Piece]]
    whole: bool = False
    broken: str = ""


def write_down(
    trace: Trace, request: Request, answer: Answer, starts: TokenStarts | None = None
) -> None:
    """Fill the fields of a trace that the answer decides.

    An answer is a success with a finish reason or an end mark, at least one token, and no error.

    Args:
        starts: token starts of the model's tokenizer, for servers that do not count.
    """
    answer = _resolved(request, answer)
    pieces = [piece for _, piece in answer.events]
    trace.text = "".join(piece.text for piece in pieces)
    counted = count_tokens(pieces, answer.whole, starts) if pieces else None
    if counted is not None:
        _write_tokens(trace, answer, counted)
    trace.finish, trace.error = _finish(request, answer, counted)
    if trace.hidden_end and trace.finish is Finish.EOS and len(request.stops.token_ids) == 1:
        trace.output_ids.append(request.stops.token_ids[0])
        trace.hidden_end = 0
    trace.granularity = Granularity.REQUEST if answer.whole else Granularity.CHUNK
    if trace.ok:
        _write_speculation(trace, pieces)
    _write_prompt(trace, request, pieces)
    trace.effective = {**trace.effective, **_differing(request, pieces)}


def _write_tokens(trace: Trace, answer: Answer, counted: Count) -> None:
    trace.counted = counted.how
    trace.output_ids = counted.ids
    trace.hidden_end = int(counted.hidden_end)
    trace.arrivals = Arrivals()
    for (t_ns, _), tokens in zip(answer.events, counted.tokens, strict=True):
        if tokens:
            trace.arrivals.t_ns.append(t_ns)
            trace.arrivals.tokens.append(tokens)
    visible = [t_ns for t_ns, piece in answer.events if piece.text]
    trace.first_visible_ns = visible[0] if visible else None


def _finish(request: Request, answer: Answer, counted: Count | None) -> tuple[Finish, str]:
    pieces = [piece for _, piece in answer.events]
    if error := next((piece.error for piece in pieces if piece.error), ""):
        return Finish.ERROR, error
    finish = next((piece.finish for piece in reversed(pieces) if piece.finish is not None), None)
    if finish is None and not any(piece.done for piece in pieces):
        missing = "the answer ended without a finish reason or an end mark"
        return Finish.ERROR, answer.broken or missing
    if counted is None or counted.total == 0:
        return Finish.ERROR, "the answer holds no token"
    if finish is None:
        full = counted.total >= request.limits.max_new_tokens
        return (Finish.LENGTH if full else Finish.EOS), ""
    ended = bool(counted.ids) and counted.ids[-1] in request.stops.token_ids
    return (Finish.EOS if finish is Finish.STOP and ended else finish), ""


def _resolved(request: Request, answer: Answer) -> Answer:
    """A server that cannot tell an end token from a stop string says STOP: where no stop string was
    asked for, it was an end token.
    """
    if request.stops.strings:
        return answer
    events = [
        (t_ns, replace(piece, finish=Finish.EOS) if piece.finish is Finish.STOP else piece)
        for t_ns, piece in answer.events
    ]
    return replace(answer, events=events)


def _write_speculation(trace: Trace, pieces: Sequence[Piece]) -> None:
    """Steps where they add up to the output, else totals.

    An answer in one piece shows no steps, and its one mark says nothing that its totals do not.
    """
    tokens = sum(trace.arrivals.tokens)
    whole = trace.granularity is Granularity.REQUEST
    steps = next((piece.steps for piece in reversed(pieces) if piece.steps is not None), None)
    marks = [piece.mark for piece in pieces if piece.mark is not None]
    if steps is None and marks and not whole:
        steps = steps_from_marks(marks, trace.finish)
    tally = next((piece.tally for piece in reversed(pieces) if piece.tally is not None), None)
    fits = steps is not None and 1 + sum(steps.committed) == tokens
    if steps is not None and fits and not whole:
        trace.steps = steps
        trace.granularity = Granularity.STEP
        if steps.cut and steps.cut[-1]:
            # The list of steps does not say what cut the last one; the finish does.
            steps.cut[-1] = str(Cut(trace.finish))
        return
    if steps is not None and (fits or tally is None):
        tally = from_steps(steps, tokens)
    trace.tally = None if tally is None else credible(tally, tokens)


def _write_prompt(trace: Trace, request: Request, pieces: Sequence[Piece]) -> None:
    """Prompt length, and what the server's own view of the prompt differs in (case E6)."""
    counts = [piece.prompt_tokens for piece in pieces if piece.prompt_tokens is not None]
    cached = [piece.cached_tokens for piece in pieces if piece.cached_tokens is not None]
    trace.cached_tokens = cached[-1] if cached else None
    ours = request.token_ids
    trace.prompt_tokens = len(ours) or (counts[-1] if counts else 0)
    if not ours:
        return
    differing: dict[str, object] = {}
    if counts and counts[-1] != len(ours):
        differing["prompt_tokens"] = counts[-1]
    theirs = next((piece.prompt_ids for piece in pieces if piece.prompt_ids is not None), None)
    if theirs is not None and theirs != ours:
        pairs = zip(ours, theirs, strict=False)
        shorter = min(len(ours), len(theirs))
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), shorter)
        differing["prompt_ids"] = f"differ from position {first}"
    trace.effective = {**trace.effective, **differing}


def _differing(request: Request, pieces: Sequence[Piece]) -> dict[str, object]:
    """Settings that the server says it used and that are not those requested."""
    said: Mapping[str, object] = {}
    for piece in pieces:
        said = {**said, **piece.effective}
    asked: dict[str, object] = {
        "seed": request.seed,
        "max_new_tokens": request.limits.max_new_tokens,
    }
    return {
        name: value
        for name, value in said.items()
        if not _same(name, asked.get(name, getattr(request.sampling, name, None)), value)
    }


def _same(name: str, asked: object, used: object) -> bool:
    if name == "seed" and isinstance(asked, int) and isinstance(used, int):
        return used == asked or used in {asked & mask for mask in SEED_MASKS}
    if isinstance(asked, int | float) and isinstance(used, int | float):
        if name == "temperature" and asked < GREEDY_BELOW and used < GREEDY_BELOW:
            return True
        return abs(asked - used) <= SINGLE * max(abs(asked), abs(used))
    return asked == used
