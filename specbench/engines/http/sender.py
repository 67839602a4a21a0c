"""One request from its body to its trace: sent, retried where that is harmless, read, noted."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specbench.core.request import Request
from specbench.core.trace import Finish, Granularity, Trace
from specbench.engines.http.client import Client, Exchange
from specbench.engines.http.counting import TokenStarts
from specbench.engines.http.extra_fields import extended
from specbench.engines.http.faults import Fault
from specbench.engines.http.options import ServerOptions
from specbench.engines.http.protocol import Dialect, Served, Wish
from specbench.engines.http.reading import read_answer
from specbench.engines.http.transcript import write_down
from specbench.errors import SpecbenchError

FIRST_WAIT_S = 0.25
LONGEST_WAIT_S = 5.0

SPARE = ("stream_options",)
"""Fields that a server may refuse and still be measured: counts are then estimated."""


@dataclass(slots=True)
class Target:
    """One server as requests see it.

    Attributes:
        routes: of the dialect, those that can be used here, best first; one where it was named.
        dropped: fields that the server refused and that are left out since.
    """

    served: Served
    routes: tuple[str, ...]
    dropped: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests of one engine.

    Attributes:
        texts: rendered prompts by their token ids, for the route ``text``.
        starts: token starts of the model's tokenizer, None without one.
        raw: prompts get no chat template.
    """

    client: Client
    dialect: Dialect
    options: ServerOptions
    texts: Mapping[tuple[int, ...], str]
    starts: TokenStarts | None
    raw: bool = False

    async def send(
        self, target: Target, request: Request, arm: str, concurrency: int, due_ns: int | None
    ) -> tuple[Trace, Fault | None]:
        """The trace of a request, and what broke it; a failure is a trace, never an exception.

        Args:
            due_ns: when it should have been sent; None = whenever it is.
        """
        try:
            exchange, attempts, first_ns = await self._exchange(target, request)
        except SpecbenchError as error:
            now = self.client.clock() if due_ns is None else due_ns
            reason = f"cannot be sent: {error.message}"
            return failed(request, arm, concurrency, now, reason), None

        def begun() -> Trace:
            trace = blank(request, arm, concurrency, first_ns if due_ns is None else due_ns)
            trace.sent_ns = first_ns if due_ns is not None else None
            trace.attempts = attempts
            if refused := sorted(target.dropped & set(SPARE)):
                trace.effective = dict.fromkeys(refused, "refused by the server")
            return trace

        trace = begun()
        if exchange.fault is not None and exchange.fault.status:
            trace.error = self._complaint(exchange, self.body(target, request)[1])
            return trace, exchange.fault
        try:
            answer = await read_answer(exchange, self.dialect)
            write_down(trace, request, answer, self.starts)
            told = any(piece.prompt_tokens is not None for _, piece in answer.events)
            if not told and _route(target, request) == "chat":
                # The server rendered the prompt and does not say how long it became.
                trace.prompt_tokens = 0
        except Exception as error:
            # Whatever a server says, the other requests go on; half a record is no record.
            trace = begun()
            trace.error = f"the answer cannot be read: {type(error).__name__}: {error}"
        return trace, exchange.fault

    def body(self, target: Target, request: Request) -> tuple[str, dict[str, object]]:
        """Path and JSON body.

        Fields of the suite only make sense where the server renders: such requests take the chat
        route whatever others do.

        Raises:
            SpecbenchError: the dialect or the route cannot express the request.
        """
        route = _route(target, request)
        if route == "text" and (text := self.texts.get(request.token_ids)) is not None:
            request = replace(request, messages=({"role": "user", "content": text},))
        wish = Wish(route, self.options.prefix_cache != "off", self.raw)
        path, body = self.dialect.post(request, target.served, wish)
        body |= extended(request.passed_on, self.options.extra_body, route)
        return path, {name: value for name, value in body.items() if name not in target.dropped}

    async def _exchange(self, target: Target, request: Request) -> tuple[Exchange, int, int]:
        """The last exchange, how often the request was sent, and when it was sent first.

        Raises:
            SpecbenchError: see ``body``; nothing was sent.
        """
        attempts, first_ns = 0, 0
        while True:
            # Anew each time: a prefix that a failed attempt left in the cache is none of this one.
            path, body = self.body(target, request)
            url = target.served.url + path
            exchange = await self.client.post(url, json.dumps(body).encode())
            first_ns = first_ns if attempts else exchange.sent_ns
            attempts += 1
            fault = exchange.fault
            spare = [name for name in SPARE if name in body and refuses(exchange, name)]
            if spare:
                # Not a retry of the same request, so its clock starts anew.
                target.dropped.update(spare)
                attempts = 0
                continue
            seen = exchange.parts and exchange.status == 200
            if fault is None or not fault.transient or seen or attempts > self.options.retries:
                return exchange, attempts, first_ns
            await asyncio.sleep(pause_s(exchange.retry_after_s, attempts))

    def _complaint(self, exchange: Exchange, body: Mapping[str, object]) -> str:
        assert exchange.fault is not None
        named = [name for name in sorted(body) if refuses(exchange, name)]
        told = f" (the server refuses the field {', '.join(named)})" if named else ""
        return exchange.fault.text + told


def pause_s(asked_s: float | None, attempts: int) -> float:
    """Seconds before a request is sent again: what the server asks for, else doubled each time.

    Args:
        attempts: how often it was sent so far.
    """
    wait_s = FIRST_WAIT_S * 2 ** (attempts - 1) if asked_s is None else asked_s
    return min(wait_s, LONGEST_WAIT_S)


def _route(target: Target, request: Request) -> str:
    if not request.passed_on or target.routes[0] == "chat":
        return target.routes[0]
    if "chat" not in target.routes:
        fields = ", ".join(sorted(request.passed_on))
        raise SpecbenchError(
            f"{fields} need the chat route, which is not used here",
            "type: --set server.route=chat",
        )
    return "chat"


def refuses(exchange: Exchange, name: str) -> bool:
    """Whether the server refused a request because of this field."""
    if exchange.status not in (400, 422):
        return False
    text = exchange.body.decode("utf-8", "replace")
    return any(f"{quote}{name}{quote}" in text for quote in ("'", '\\"', "`")) or (
        "_" in name and name in text
    )


def blank(request: Request, arm: str, concurrency: int, start_ns: int) -> Trace:
    """A trace in which nothing has happened yet."""
    return Trace(
        key=request.key,
        arm=arm,
        concurrency=concurrency,
        unit="",
        granularity=Granularity.REQUEST,
        seed=request.seed,
        prompt_tokens=len(request.token_ids),
        prompt_hash=hashlib.sha256(",".join(map(str, request.token_ids)).encode()).hexdigest(),
        start_ns=start_ns,
        finish=Finish.ERROR,
    )


def failed(request: Request, arm: str, concurrency: int, start_ns: int, reason: str) -> Trace:
    """The trace of a request that was not sent."""
    trace = blank(request, arm, concurrency, start_ns)
    trace.attempts = 0
    trace.error = reason
    return trace
