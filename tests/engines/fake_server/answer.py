"""One scripted answer: which bytes are written when, and how the connection ends."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise

JSON = "application/json"
EVENTS = "text/event-stream"


class Framing(StrEnum):
    """How the end of a body is told: last chunk, Content-Length, or the connection's end."""

    CHUNKED = "chunked"
    LENGTH = "length"
    CLOSE = "close"


class Ending(StrEnum):
    """What happens after the last write.

    ``WHOLE`` ends the body properly. ``CUT`` closes the connection in its middle. ``RESET`` sends
    a TCP reset. ``STALL`` writes nothing more and waits until the client goes away.
    """

    WHOLE = "whole"
    CUT = "cut"
    RESET = "reset"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server does with one request.

    Attributes:
        writes: (seconds since the request arrived, bytes); each is one write, and one chunk under
            ``CHUNKED``. Times are absolute, so delays do not add up.
        status: HTTP status; 0 = not even a status line, straight to ``ending``.
        content_type, headers: of the head.
        head_s: when the head is written, seconds since the request arrived.
        framing, ending: how the body ends.
    """

    writes: Sequence[tuple[float, bytes]] = ()
    status: int = 200
    content_type: str = EVENTS
    headers: Mapping[str, str] = field(default_factory=dict)
    head_s: float = 0.0
    framing: Framing = Framing.CHUNKED
    ending: Ending = Ending.WHOLE

    def but(self, ending: Ending) -> Answer:
        """The same with another ending."""
        return replace(self, ending=ending)


@dataclass(frozen=True, slots=True)
class Received:
    """One request as the server read it.

    Attributes:
        number: 0, 1, ... over the POST requests of a server, in order of arrival.
        path: without the query.
        headers: names in lower case.
        body: decoded JSON; empty where the request had none.
        t_ns: monotonic clock when its last byte arrived; the script's times count from here.
        port: of the client's end; equal for requests over one connection.
    """

    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, object]
    t_ns: int
    port: int


def stream(*writes: tuple[float, bytes]) -> Answer:
    """A streamed answer that ends properly."""
    return Answer(writes)


def whole(payload: object, status: int = 200, at_s: float = 0.0) -> Answer:
    """One JSON document with a Content-Length: an answer that is not streamed."""
    data = json.dumps(payload).encode()
    return Answer(((at_s, data),), status, content_type=JSON, head_s=at_s, framing=Framing.LENGTH)


def page(text: str, status: int = 200) -> Answer:
    """Plain text, such as /metrics or /health."""
    data = text.encode()
    return Answer(((0.0, data),), status, content_type="text/plain", framing=Framing.LENGTH)


def refused(
    status: int, message: str, at_s: float = 0.0, headers: Mapping[str, str] | None = None
) -> Answer:
    """An OpenAI-style error document with this status (400, 401, 404, 429, 503, ...)."""
    error = {"message": message, "type": "error", "code": status}
    return replace(whole({"error": error}, status, at_s), headers=headers or {})


def silent(ending: Ending) -> Answer:
    """No status line: the connection stalls, is closed or reset as soon as the request is read."""
    return Answer(status=0, ending=ending)


def cut_at(data: bytes, offsets: Sequence[int], gap_s: float = 0.0) -> Answer:
    """A stream written in pieces that end at these offsets, ``gap_s`` apart (case D7)."""
    borders = [0, *offsets, len(data)]
    pieces = [data[a:b] for a, b in pairwise(borders) if a < b]
    return Answer([(index * gap_s, piece) for index, piece in enumerate(pieces)])
