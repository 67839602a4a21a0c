"""Reads HTTP/1.1 requests and plays answers on asyncio streams."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import SupportsIndex

from tests.engines.fake_server.answer import Answer, Ending, Framing, Received

Wrote = tuple[int, bytes]
"""(monotonic nanoseconds just before the write, the body bytes of it)."""
NOT_HTTP = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LINGER_ZERO = struct.pack("ii", 1, 0)
"""Socket option under which closing sends a reset."""


class StampedReader(asyncio.StreamReader):
    """Notes when bytes arrived, however long its task then waits for its turn.

    Attributes:
        fed_ns: monotonic clock at the latest arrival.
    """

    fed_ns = 0

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        """Called by the event loop."""
        self.fed_ns = time.monotonic_ns()
        super().feed_data(data)


async def read_request(reader: StampedReader, port: int) -> Received | None:
    """The next request of a connection, its number still 0; None where the client closed it.

    Raises ValueError where it is not HTTP, but a TLS handshake for example.
    """
    try:
        start = await reader.readexactly(1)
        if not start.isalpha():
            raise ValueError("not HTTP")
        head = start + await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    body = json.loads(data) if data else {}
    path = target.partition("?")[0]
    return Received(0, method, path, headers, body, reader.fed_ns, port)


async def play(
    answer: Answer,
    received: Received,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    record: Callable[[Wrote], None],
) -> bool:
    """Write an answer; returns whether the connection can take another request.

    Raises ConnectionError where the client went away before the answer's end.
    """
    if answer.status:
        await _wait(answer.head_s, received)
        writer.write(_head(answer))
    for at_s, data in answer.writes:
        await _wait(at_s, received)
        if reader.at_eof() or writer.is_closing():
            raise ConnectionResetError("the client went away")
        framed = b"%x\r\n%b\r\n" % (len(data), data)
        record((time.monotonic_ns(), data))
        writer.write(framed if answer.framing is Framing.CHUNKED else data)
        await writer.drain()
    return await _end(answer, reader, writer)


async def _wait(at_s: float, received: Received) -> None:
    left_s = at_s - (time.monotonic_ns() - received.t_ns) * 1e-9
    if left_s > 0:
        await asyncio.sleep(left_s)


def _head(answer: Answer) -> bytes:
    status = HTTPStatus(answer.status)
    headers = {"Content-Type": answer.content_type, **answer.headers}
    if answer.framing is Framing.CHUNKED:
        headers["Transfer-Encoding"] = "chunked"
    elif answer.framing is Framing.LENGTH:
        headers["Content-Length"] = str(sum(len(data) for _, data in answer.writes))
    else:
        headers["Connection"] = "close"
    lines = [f"HTTP/1.1 {status.value} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _end(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    if answer.ending is Ending.STALL:
        await reader.read()
        raise ConnectionResetError("the client went away")
    if answer.ending is Ending.RESET:
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
        writer.transport.abort()
        return False
    if answer.ending is Ending.CUT:
        return False
    if answer.framing is Framing.CHUNKED:
        writer.write(b"0\r\n\r\n")
        await writer.drain()
    return answer.framing is not Framing.CLOSE
