"""What one event of a streamed answer says, whatever server sent it; None = it does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specbench.core.trace import Finish, Steps, Tally


@dataclass(frozen=True, slots=True)
class Mark:
    """Cumulative counters of a request's speculation at one moment.

    Attributes:
        tokens: output tokens so far.
        verified, accepted: draft tokens so far; None where the server does not draft.
        clock: a value that changes with every decode step and is equal within one.
    """

    tokens: int
    verified: int | None
    accepted: int | None
    clock: float


@dataclass(frozen=True, slots=True)
class Piece:
    """One event of a stream, or a whole answer that was not streamed.

    Attributes:
        text: visible text that it brings.
        reasoning: text of a reasoning part, visible to nobody who does not ask.
        token_ids: ids of the tokens it brings.
        completion_tokens: output tokens so far, end token included.
        prompt_tokens, cached_tokens: prompt length as the server counts it, and how much of it
            came from its prefix cache.
        finish: why the output ended, in the event that says so.
        error: what went wrong, although the status was 200.
        done: this is the end mark.
        mark: counters of speculation so far.
        steps: every decode step of the request, in an answer's last event.
        tally: totals of the request's speculation, in an answer's last event.
        effective: sampling settings that the server says it uses, by our names
            (``core.request.Sampling`` fields, ``seed``, ``max_new_tokens``).
        prompt_ids: the prompt as the server tokenised it.
    """

    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    finish: Finish | None = None
    error: str = ""
    done: bool = False
    mark: Mark | None = None
    steps: Steps | None = None
    tally: Tally | None = None
    effective: Mapping[str, object] = field(default_factory=dict)
    prompt_ids: tuple[int, ...] | None = None
