"""A script for load: streams of one word per token, and a fault where the prompt asks for one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.engines.fake_server.answer import Answer, Ending, Received, refused, stream
from tests.engines.fake_server.events import DONE, chat, error, usage_only

PROMPT_TOKENS = 4
ROLE = chat("", role="assistant")


@dataclass(frozen=True, slots=True)
class Pace:
    """Times of a stream.

    Attributes:
        tokens: per answer.
        first_s: least time to the first token; streams differ by up to ``gap_s``, so that they do
            not tick together.
        gap_s: from token to token.
    """

    tokens: int = 40
    first_s: float = 0.2
    gap_s: float = 0.025


def prompt(number: int, fault: str = "") -> str:
    """What a client asks for: its own number, and which fault it wants."""
    return f"{number} {fault or 'none'}"


def asked_for(body: Mapping[str, object]) -> tuple[int, str]:
    """(number, fault) of a request body with messages or a prompt as text."""
    messages = body.get("messages")
    said = messages[-1]["content"] if isinstance(messages, list) else body["prompt"]
    number, fault = str(said).split()
    return int(number), fault


class LoadScript:
    """Answers by the fault that a prompt names: ``none`` or a key of ``FAULTS``."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        # Made once: a server under load should not be busy with its own words.
        self._tokens = [chat(f" {index}") for index in range(pace.tokens)]
        counted = usage_only(pace.tokens, PROMPT_TOKENS)
        self._end = b"".join([chat("", finish="length"), counted, DONE])

    def __call__(self, received: Received) -> Answer:
        """One streamed chat answer, whole or broken half-way."""
        number, fault = asked_for(received.body)
        pace = self._pace
        first_s = pace.first_s + random.Random(number).random() * pace.gap_s
        times = [first_s + index * pace.gap_s for index in range(pace.tokens)]
        start = (0.0, ROLE)
        whole = stream(start, *zip(times, self._tokens, strict=True), (times[-1], self._end))
        return whole if fault == "none" else FAULTS[fault](whole)


def _half(answer: Answer) -> list[tuple[float, bytes]]:
    return list(answer.writes[: len(answer.writes) // 2])


def _late_error(answer: Answer) -> Answer:
    half = _half(answer)
    return stream(*half, (half[-1][0], error("the engine died") + DONE))


FAULTS: Mapping[str, Callable[[Answer], Answer]] = {
    "refused": lambda answer: refused(503, "overloaded"),
    "stalled": lambda answer: stream(*_half(answer)).but(Ending.STALL),
    "cut": lambda answer: stream(*_half(answer)).but(Ending.CUT),
    "error": _late_error,
    "reset": lambda answer: stream(*_half(answer)).but(Ending.RESET),
}
"""Name -> what becomes of a whole answer."""
