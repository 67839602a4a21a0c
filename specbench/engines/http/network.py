"""Connections that remember when a request was written and when its bytes came.

A read is stamped in the event loop's callback, before any waiting task runs: when many streams get
bytes at once, the last of them is not late by the time that handling the others takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections import deque
from collections.abc import Callable

from specbench.engines.http.faults import Broken, FaultKind


class _Inbox(asyncio.Protocol):
    """Keeps what arrived, with its time, until it is read; and holds writers back."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.parts: deque[tuple[int, bytes]] = deque()
        self.ended = False
        self.error: Exception | None = None
        self._clock = clock
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self.parts.append((self._clock(), data))
        self._arrived.set()

    def eof_received(self) -> bool:
        self.ended = True
        self._arrived.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self.error = self.error or exc
        self._arrived.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def drained(self) -> None:
        await self._writable.wait()

    async def waiting(self) -> bool:
        """Wait for a part or the end; whether there is a part."""
        while not self.parts and not self.ended:
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self.parts)

    async def next(self) -> tuple[int, bytes]:
        """The oldest part; empty bytes at the end. Raises what broke the connection."""
        if await self.waiting():
            return self.parts.popleft()
        if self.error is not None:
            raise self.error
        return self._clock(), b""


class StampedStream:
    """One connection.

    Attributes:
        sent_ns: when the latest request began to be written.
        read_ns: when the part that was read last had arrived.
    """

    def __init__(
        self, transport: asyncio.Transport, inbox: _Inbox, clock: Callable[[], int]
    ) -> None:
        self._transport = transport
        self._inbox = inbox
        self._clock = clock
        self.sent_ns = self.read_ns = clock()

    @property
    def idle(self) -> bool:
        """Whether it is open, and nothing came that nobody asked for."""
        return not (self._inbox.ended or self._inbox.parts)

    async def write(self, data: bytes, timeout_s: float) -> None:
        """Write a request and wait until the socket took it.

        Raises:
            Broken: the connection broke, or the socket takes nothing for that long.
        """
        self.sent_ns = self._clock()
        self._transport.write(data)
        try:
            async with asyncio.timeout(timeout_s):
                await self._inbox.drained()
        except TimeoutError:
            message = f"nothing could be written for {timeout_s:g} s (idle_timeout_s)"
            raise Broken(FaultKind.IDLE, message) from None

    async def read(self, timeout_s: float) -> bytes:
        """The next part as it came, so that no two parts share a time; empty at the end.

        Raises:
            Broken: the connection broke, or nothing came for that long.
        """
        try:
            async with asyncio.timeout(timeout_s):
                self.read_ns, data = await self._inbox.next()
        except TimeoutError:
            message = f"no bytes for {timeout_s:g} s (idle_timeout_s)"
            raise Broken(FaultKind.IDLE, message) from None
        except OSError as error:
            raise Broken(FaultKind.CLOSED, f"the connection broke: {error}") from error
        return data

    async def waiting(self, timeout_s: float) -> bool:
        """Wait until something came or the other side closed; whether something came.

        Raises:
            Broken: neither happened for that long.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._inbox.waiting()
        except TimeoutError:
            message = f"no bytes for {timeout_s:g} s (idle_timeout_s)"
            raise Broken(FaultKind.IDLE, message) from None

    def close(self) -> None:
        """Close; harmless when repeated."""
        self._transport.abort()


async def connect(
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    timeout_s: float,
    clock: Callable[[], int],
) -> StampedStream:
    """Open a connection to the first address of a host that answers.

    Raises:
        Broken: there is no such host, nobody listens, nobody answers in time, or no TLS.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            transport, inbox = await loop.create_connection(
                lambda: _Inbox(clock), host, port, ssl=tls, server_hostname=host if tls else None
            )
    except TimeoutError:
        message = f"no connection within {timeout_s:g} s (connect_timeout_s)"
        raise Broken(FaultKind.SLOW_CONNECT, message) from None
    except ssl.SSLCertVerificationError as error:
        message = f"the certificate is not trusted: {error.verify_message}"
        raise Broken(FaultKind.TLS, message) from error
    except ssl.SSLError as error:
        raise Broken(FaultKind.TLS, f"no TLS connection: {error.reason or error}") from error
    except (socket.gaierror, UnicodeError) as error:
        raise Broken(FaultKind.DNS, f"no such host: {host}") from error
    except ConnectionRefusedError as error:
        raise Broken(FaultKind.REFUSED, "connection refused") from error
    except ConnectionResetError as error:
        kind = FaultKind.TLS if tls else FaultKind.CLOSED
        raise Broken(kind, f"the connection broke: {error}") from error
    except OSError as error:
        # Several addresses of one host that all refuse come as one error with all their texts.
        refused = f"[Errno {errno.ECONNREFUSED}]" in str(error)
        kind = FaultKind.REFUSED if refused else FaultKind.UNREACHABLE
        text = "connection refused" if refused else f"no connection: {error}"
        raise Broken(kind, text) from error
    with contextlib.suppress(OSError, AttributeError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return StampedStream(transport, inbox, clock)
