"""What went wrong with a connection or an answer, in words for traces and for people."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses after which a request may be sent again."""


class FaultKind(StrEnum):
    """Kinds of faults; what a person can do about them differs."""

    DNS = "dns"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    SLOW_CONNECT = "connect timeout"
    TLS = "tls"
    NOT_HTTP = "not http"
    CLOSED = "closed"
    IDLE = "idle timeout"
    TOTAL = "timeout"
    STATUS = "status"


RETRIED = frozenset(
    {FaultKind.REFUSED, FaultKind.UNREACHABLE, FaultKind.SLOW_CONNECT, FaultKind.CLOSED}
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no whole answer.

    Attributes:
        status: HTTP status; 0 where there was none.
    """

    kind: FaultKind
    text: str
    status: int = 0

    @property
    def transient(self) -> bool:
        """Whether trying again may help, if nothing of an answer was seen."""
        if self.kind is FaultKind.STATUS:
            return self.status in TRANSIENT
        return self.kind in RETRIED


class Broken(Exception):
    """A connection that cannot be used, or an exchange that cannot go on."""

    def __init__(self, kind: FaultKind, text: str) -> None:
        super().__init__(text)
        self.fault = Fault(kind, text)


def status_fault(status: int, body: bytes) -> Fault:
    """The fault of an answer whose status is no success, with what the server says about it."""
    said = said_by(body)
    return Fault(FaultKind.STATUS, f"HTTP {status}: {said}" if said else f"HTTP {status}", status)


def said_by(body: bytes, longest: int = 300) -> str:
    """The message in an error document, else the beginning of the document, on one line."""
    text = body.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    if isinstance(found, dict):
        inner = found.get("error", found)
        if isinstance(inner, dict):
            inner = inner.get("message") or inner.get("detail") or inner
        found = inner
    line = " ".join(str(found).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"
