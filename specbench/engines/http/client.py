"""Sends requests and keeps the bytes of the answers with their times. Nothing is parsed here.

A request on a connection that was used before may meet a server that has just dropped it. Where it
closes without a byte of an answer, the request is written once more, on a new connection, and the
time of the first writing stays. This is no retry of a request that failed: it is counted apart, in
``Exchange.resent`` and ``Client.resent``. Afterwards no connection is used twice, so it happens to
no more requests than were under way at that moment. A new connection that is closed without an
answer is a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic_ns
from urllib.parse import SplitResult, urlsplit

from specbench.engines.http.connection import Connection, Connections, Header
from specbench.engines.http.faults import Broken, Fault, FaultKind, status_fault
from specbench.engines.http.options import ServerOptions

END_MARK = b"[DONE]"
AFTER_END_S = 1.0
"""How long the end of a body may take after its end mark."""


@dataclass(slots=True)
class Exchange:
    """One request and what came of it.

    Attributes:
        sent_ns: when it was written; when it was begun where no connection was to be had.
        status: HTTP status; 0 = none came.
        streamed: whether the answer is a stream of events.
        parts: (time, bytes) as they arrived.
        fault: why the answer is not whole; None where it is.
        retry_after_s: how long the server asks to wait; at least 0.
        resent: how often it was written again because the server had dropped the connection.
    """

    sent_ns: int
    status: int = 0
    streamed: bool = False
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    fault: Fault | None = None
    retry_after_s: float | None = None
    resent: int = 0

    @property
    def body(self) -> bytes:
        """All bytes of the answer."""
        return b"".join(part for _, part in self.parts)


class Client:
    """Connections to the servers of one engine; used in one event loop.

    Args:
        keep: whether a connection may be used for further requests.

    Attributes:
        clock: monotonic nanoseconds; every time it notes is of this clock.
        resent: requests that were written again because a server had dropped the connection.

    Raises PrerequisiteError where the key's variable or the certificate file is missing.
    """

    def __init__(
        self,
        options: ServerOptions,
        clock: Callable[[], int] = monotonic_ns,
        keep: bool = True,
    ) -> None:
        self.clock = clock
        self.resent = 0
        self._options = options
        key = options.key
        self._key = (key or "").encode()
        # Compressed events would wait in the server until a block is full.
        self._headers: list[Header] = [(b"Accept-Encoding", b"identity")]
        if key is not None:
            self._headers.append((b"Authorization", f"Bearer {key}".encode()))
        self._connections = Connections(options.tls(), options.connect_timeout_s, clock, keep)

    async def post(self, url: str, body: bytes) -> Exchange:
        """Send a JSON document; never raises for what the server or the network does."""
        headers = [
            (b"Content-Type", b"application/json"),
            (b"Content-Length", str(len(body)).encode()),
            (b"Accept", b"text/event-stream, application/json"),
        ]
        return await self._exchange("POST", url, headers, body, self._options.timeout_s)

    async def get(self, url: str, timeout_s: float | None = None) -> Exchange:
        """Fetch a page; never raises for what the server or the network does."""
        # Pages are rare. A connection that lasts has shown it with a request of the same kind.
        headers = [(b"Connection", b"close")]
        return await self._exchange("GET", url, headers, b"", timeout_s or self._options.timeout_s)

    def close(self) -> None:
        """Close connections that wait for a request. Call it in the loop."""
        self._connections.close()

    async def _exchange(
        self, method: str, url: str, headers: Sequence[Header], body: bytes, timeout_s: float
    ) -> Exchange:
        exchange = Exchange(self.clock())
        place = urlsplit(url)
        wanted = [*_host(place), *self._headers, *headers]
        idle_s = self._options.idle_timeout_s
        connection: Connection | None = None

        async def written(fresh: bool) -> Connection:
            taken = await self._connections.take(place, fresh)
            try:
                await taken.send(method, _target(place), wanted, body, idle_s)
            except BaseException:
                taken.stream.close()
                raise
            return taken

        try:
            async with asyncio.timeout(timeout_s) as deadline:
                connection = await written(fresh=method == "GET")
                exchange.sent_ns = connection.stream.sent_ns
                if connection.used and not await connection.answers(idle_s):
                    connection.stream.close()
                    self._connections.keep_none()
                    connection = await written(fresh=True)
                    exchange.resent += 1
                    self.resent += 1
                await self._read(connection, exchange, deadline)
        except TimeoutError:
            # Behind the end mark nothing is missing any more.
            if not _ended(exchange):
                text = f"no end after {timeout_s:g} s (timeout_s)"
                exchange.fault = Fault(FaultKind.TOTAL, text)
        except Broken as broken:
            exchange.fault = broken.fault
        finally:
            if connection is not None:
                self._connections.give_back(place, connection)
        if exchange.fault is None and not 200 <= exchange.status < 300:
            # Some servers repeat the key that they refuse.
            said = exchange.body.replace(self._key, b"***") if self._key else exchange.body
            exchange.fault = status_fault(exchange.status, said)
        return exchange

    async def _read(
        self, connection: Connection, exchange: Exchange, deadline: asyncio.Timeout
    ) -> None:
        stream, idle_s = connection.stream, self._options.idle_timeout_s
        response = await connection.answer(idle_s)
        headers = dict(response.headers)
        exchange.status = response.status_code
        exchange.streamed = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        exchange.retry_after_s = _seconds(headers.get(b"retry-after"))
        async for part in connection.body(idle_s):
            exchange.parts.append((stream.read_ns, part))
            if exchange.streamed and part.rstrip().endswith(END_MARK):
                deadline.reschedule(asyncio.get_running_loop().time() + AFTER_END_S)


def _ended(exchange: Exchange) -> bool:
    return exchange.streamed and exchange.body.rstrip().endswith(END_MARK)


def _host(url: SplitResult) -> list[Header]:
    # Names beyond ASCII are looked up in their encoded form.
    return [(b"Host", url.netloc.rpartition("@")[2].encode("idna"))]


def _target(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _seconds(value: bytes | None) -> float | None:
    try:
        seconds = float(value or b"")
    except ValueError:
        return None
    return seconds if seconds >= 0 else None
