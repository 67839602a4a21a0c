"""What differs between servers: their routes, their request fields and what they tell."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specbench.core.request import Request
from specbench.core.trace import Window
from specbench.engines.http.piece import Piece


@dataclass(frozen=True, slots=True)
class Served:
    """One server as it answered when we first asked; None and empty = it does not say.

    Attributes:
        url: base address without the ``/v1``.
        model: the name to send with each request.
        context: largest prompt plus output length.
        version: of the engine.
        facts: whatever else belongs into the manifest.
    """

    url: str
    model: str = ""
    context: int | None = None
    version: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """How one request is to be put.

    Attributes:
        route: ``ids`` (the prompt as token ids), ``chat`` (messages) or ``text`` (rendered text).
        cache: whether the server may reuse a prefix; None leaves it alone.
        raw: no chat template was applied, so that special tokens are the server's to add.
        salt: another one in every request, in every run: requests of different salts share no
            prefix, whatever a server has seen before.
    """

    route: str
    cache: bool | None = None
    raw: bool = False
    salt: str = field(default_factory=lambda: secrets.token_hex(16))


class Dialect(Protocol):
    """One kind of server; each file of ``dialects`` holds one as ``DIALECT``.

    A dialect may have these attributes, which are False where it has not: ``cumulative``, events
    may repeat all earlier text and ids; ``adds_special``, special tokens are always added to a
    text; ``drops_connections``, kept connections end without a word.
    """

    name: str
    routes: Sequence[str]
    """Of ``ids``, ``text``, ``chat``: best first."""

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """Path and JSON body of one streamed request; every sampling field is in it."""
        ...

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """What one event says; raises ValueError where it is not one of this kind of server."""
        ...


class Counters(Protocol):
    """Reads a server's counters around what is measured."""

    def before(self) -> None:
        """Remember where the counters stand."""
        ...

    def after(self, sent: int, tokens: int | None = None) -> Window:
        """What was counted since ``before``, while ``sent`` requests were sent and answered.

        Args:
            tokens: output tokens of the answers; None where nobody counted them for certain.
        """
        ...
