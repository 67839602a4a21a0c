"""HTTP/1.1 on one stamped connection, and the connections that wait for their next request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from urllib.parse import SplitResult

import h11

from specbench.engines.http.faults import Broken, FaultKind
from specbench.engines.http.network import StampedStream, connect

Header = tuple[bytes, bytes]

KEEP_S = 2.0
"""How long an idle connection is kept. Common servers drop theirs after 5 s; a request that is
sent at that very moment would fail for no fault of the server's."""

NS_PER_S = 1e9
LONGEST_HEAD = 1 << 18


class Connection:
    """One request at a time.

    Attributes:
        stream: holds the times.
        used: an earlier request was answered on it.
    """

    def __init__(self, stream: StampedStream) -> None:
        self.stream = stream
        self.used = False
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)

    @property
    def reusable(self) -> bool:
        """Whether the last answer was read to its end and the server keeps the connection."""
        done = self._state.our_state is h11.DONE and self._state.their_state is h11.DONE
        return done and self.stream.idle

    async def send(
        self, method: str, target: str, headers: list[Header], body: bytes, timeout_s: float
    ) -> None:
        """Write a whole request at once. Raises Broken."""
        if self._state.our_state is h11.DONE:
            self.used = True
            self._state.start_next_cycle()
        try:
            head = self._state.send(h11.Request(method=method, target=target, headers=headers))
            data = self._state.send(h11.Data(data=body)) if body else b""
            end = self._state.send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            # Its text may hold the key.
            message = "the request cannot be written: is the key plain text on one line?"
            raise Broken(FaultKind.NOT_HTTP, message) from None
        await self.stream.write(b"".join(part or b"" for part in (head, data, end)), timeout_s)

    async def answers(self, timeout_s: float) -> bool:
        """Whether the server answers on it, or has dropped it. Waits for the first bytes.

        Raises:
            Broken: nothing came for that long.
        """
        return await self.stream.waiting(timeout_s)

    async def answer(self, timeout_s: float) -> h11.Response:
        """The head of the answer. Raises Broken."""
        while True:
            event = await self._next(timeout_s)
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Broken(FaultKind.CLOSED, "the connection ended too early: no answer")

    async def body(self, timeout_s: float) -> AsyncIterator[bytes]:
        """The parts of the answer's body as they come. Raises Broken."""
        while isinstance(event := await self._next(timeout_s), h11.Data):
            yield bytes(event.data)

    async def _next(self, timeout_s: float) -> object:
        try:
            while (event := self._state.next_event()) is h11.NEED_DATA:
                data = await self.stream.read(timeout_s)
                if not data and self._state.their_state is h11.SEND_RESPONSE:
                    raise Broken(FaultKind.CLOSED, "the connection ended too early: no answer")
                self._state.receive_data(data)
        except h11.RemoteProtocolError as error:
            if self._state.trailing_data[1]:
                message = "the connection ended too early: the answer was cut off"
                raise Broken(FaultKind.CLOSED, message) from error
            raise Broken(FaultKind.NOT_HTTP, f"the answer is not HTTP: {error}") from error
        return event


class Connections:
    """Idle connections by server; newest first, so that old ones may expire.

    Some servers drop kept connections without a word, at times just when the next request is
    written. From the first time on that one did so, no connection of this engine is kept: its
    servers are of one kind.

    Args:
        tls: for https.
        clock: monotonic nanoseconds.
        kept: False where servers are known to do so.

    Attributes:
        kept: whether connections are used again.
    """

    def __init__(
        self, tls: ssl.SSLContext, timeout_s: float, clock: Callable[[], int], kept: bool = True
    ) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._clock = clock
        self._idle: dict[str, list[tuple[int, Connection]]] = {}
        self.kept = kept

    async def take(self, url: SplitResult, fresh: bool = False) -> Connection:
        """A connection to the server of an address; a new one if ``fresh``.

        Raises:
            Broken: there is none to be had.
        """
        waiting = [] if fresh else self._idle.get(_server(url), [])
        while waiting:
            since, connection = waiting.pop()
            young = self._clock() - since < KEEP_S * NS_PER_S
            if young and connection.reusable:
                return connection
            connection.stream.close()
            if young:
                self.keep_none()
        secure = url.scheme == "https"
        port = url.port or (443 if secure else 80)
        tls = self._tls if secure else None
        stream = await connect(url.hostname or "", port, tls, self._timeout_s, self._clock)
        return Connection(stream)

    def give_back(self, url: SplitResult, connection: Connection) -> None:
        """Keep a connection for the next request, or close it."""
        if self.kept and connection.reusable:
            self._idle.setdefault(_server(url), []).append((self._clock(), connection))
        else:
            connection.stream.close()

    def keep_none(self) -> None:
        """A server dropped a kept connection: use none twice from now on."""
        self.kept = False
        self.close()

    def close(self) -> None:
        """Close all that are idle."""
        for waiting in self._idle.values():
            for _, connection in waiting:
                connection.stream.close()
        self._idle.clear()


def _server(url: SplitResult) -> str:
    return f"{url.scheme}://{url.netloc}"
