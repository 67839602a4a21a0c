"""From the bytes of an exchange to the events they hold.

This happens once an answer is over, a few events at a time: the loop that stamps what other
streams receive is never held up for long.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from specbench.engines.http.client import Exchange
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Dialect
from specbench.engines.http.repeats import without_repeats
from specbench.engines.http.sse import SseParser
from specbench.engines.http.transcript import Answer

AT_A_TIME = 8
"""Events that are read before other streams get their turn: about a quarter of a millisecond."""

END_MARK = "[DONE]"


async def read_answer(exchange: Exchange, dialect: Dialect) -> Answer:
    """What an answer of status 200 says, as far as it came.

    A dialect with a true attribute ``cumulative`` may repeat all earlier text and ids in every
    event; what is new is cut out here.
    """
    broken = exchange.fault.text if exchange.fault else ""
    if not exchange.streamed and not exchange.body.lstrip().startswith((b"data:", b":")):
        return _whole(exchange, dialect, broken)
    events: list[tuple[int, Piece]] = []
    try:
        payloads, half = _payloads(exchange.parts)
        for index, (t_ns, payload) in enumerate(payloads):
            events.append((t_ns, _piece(payload, dialect)))
            if events[-1][1].done:
                break
            if index % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
    except _Unreadable as error:
        return Answer(events, broken=str(error))
    if half:
        broken = broken or "the stream ended inside an event"
    repeats = getattr(dialect, "cumulative", False)
    return Answer(without_repeats(events) if repeats else events, False, broken)


class _Unreadable(Exception):
    """An event that no server of this kind sends."""


def _whole(exchange: Exchange, dialect: Dialect, broken: str) -> Answer:
    if broken or not exchange.parts:
        return Answer((), True, broken or "the answer is empty")
    try:
        text = exchange.body.decode("utf-8")
        piece = _piece(text, dialect)
    except (UnicodeDecodeError, _Unreadable) as error:
        return Answer((), True, str(error))
    return Answer(((exchange.parts[-1][0], piece),), True)


def _payloads(parts: Sequence[tuple[int, bytes]]) -> tuple[list[tuple[int, str]], bool]:
    """(arrival, data) of every whole event, and whether one was cut off at the end."""
    parser = SseParser()
    found: list[tuple[int, str]] = []
    try:
        for t_ns, part in parts:
            found.extend((t_ns, data) for data in parser.feed(part))
    except UnicodeDecodeError as error:
        raise _Unreadable(f"an event is not UTF-8: {error}") from error
    return found, parser.finish()


def _piece(payload: str, dialect: Dialect) -> Piece:
    if payload.strip() == END_MARK:
        return Piece(done=True)
    try:
        data: Any = json.loads(payload)
        if not isinstance(data, dict):
            raise ValueError("no JSON object")
        return dialect.piece(data)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        shown = payload if len(payload) <= 200 else payload[:199] + "…"
        raise _Unreadable(
            f"an event is not one of a server of kind {dialect.name} ({error}): {shown}"
        ) from error
