"""What is asked of an engine: prompts, sampling settings and requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

GREEDY_BELOW = 1e-5
"""Temperatures below this are greedy; the one predicate every component uses."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen from a row of logits.

    Attributes:
        temperature: softmax temperature; below ``GREEDY_BELOW`` the row is greedy.
        top_k: keep the ``top_k`` most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens with at least this mass, after ``top_k``.
        min_p: keep tokens with at least ``min_p`` times the largest probability.
        repetition_penalty: divides positive and multiplies negative logits of seen tokens
            (CTRL, Keskar et al. 2019, section 4.1), prompt included.
        frequency_penalty: subtracted once per earlier occurrence in the output.
        presence_penalty: subtracted once from tokens that occur in the output.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0.0:
            raise ValueError(f"temperature must be >= 0, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k must be >= 0 (0 = off), got {self.top_k}")
        if not 0.0 < self.top_p <= 1.0:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if not 0.0 <= self.min_p <= 1.0:
            raise ValueError(f"min_p must be in [0, 1], got {self.min_p}")
        if not self.repetition_penalty > 0.0:
            raise ValueError(f"repetition_penalty must be > 0, got {self.repetition_penalty}")

    @property
    def greedy(self) -> bool:
        """Whether the row is decoded by argmax."""
        return self.temperature < GREEDY_BELOW

    @property
    def untruncated(self) -> bool:
        """Whether every token keeps its tempered probability."""
        return self.top_k == 0 and self.top_p == 1.0 and self.min_p == 0.0

    @property
    def penalised(self) -> bool:
        """Whether the row depends on the tokens before it through penalties."""
        return (
            self.repetition_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Length limits of one request, in tokens."""

    max_new_tokens: int
    min_new_tokens: int = 0
    context: int | None = None
    """Largest prompt plus output length, None = the model's own limit."""


@dataclass(frozen=True, slots=True)
class Stops:
    """What ends a request early: token ids (EOS among them) and strings."""

    token_ids: tuple[int, ...] = ()
    strings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What a request is, for pairing arms and for resuming a run.

    ``repeat`` separates repeated samples of one prompt; each gets its own random stream.
    """

    suite: str
    item: str
    turn: int
    temperature: float
    repeat: int


@dataclass(frozen=True, slots=True)
class Request:
    """One generation: a rendered, tokenised prompt and how to continue it."""

    key: RequestKey
    token_ids: tuple[int, ...]
    sampling: Sampling
    limits: Limits
    stops: Stops
    seed: int = 0
    messages: tuple[Mapping[str, object], ...] = ()
    """The conversation behind ``token_ids``, for routes that take no ids."""
    passed_on: Mapping[str, object] = field(default_factory=dict)
    """Fields of the suite that a server gets unchanged: tools, response_format, ..."""
