"""When requests are due, and how many are in flight.

In a closed loop a request is due when a place is free. In an open loop (Poisson, burst) it is due
at its own time whatever the server does; where no place is free it waits, and its waiting counts.
Otherwise a slow server would slow down the load that it is measured with (coordinated omission,
Tene 2013).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from specbench.engines.http.options import Arrival
from specbench.errors import UsageError

T = TypeVar("T")

NS_PER_S = 1e9


def due_times(arrival: Arrival, count: int, seed: str) -> list[int] | None:
    """Nanoseconds from the first request's place in time to when each is due; None = closed loop.

    Args:
        seed: the same text gives the same gaps, so that every arm gets the same load.

    Raises:
        UsageError: an unknown kind of arrival, or Poisson arrivals without a rate above 0.
    """
    if arrival.kind == "closed":
        return None
    if arrival.kind == "burst":
        return [0] * count
    if arrival.kind != "poisson":
        raise UsageError(
            f"unknown arrivals {arrival.kind!r}", "use closed, poisson or burst arrivals"
        )
    if arrival.rate is None or not arrival.rate > 0:
        raise UsageError(
            f"poisson arrivals at a rate of {arrival.rate}", "give requests per second, above 0"
        )
    gaps = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count):
        now += gaps.expovariate(arrival.rate)
        times.append(round(now * NS_PER_S))
    return times


async def send_all(
    items: Sequence[T],
    due: Sequence[int] | None,
    places: int,
    send: Callable[[T, int | None], Awaitable[None]],
    clock: Callable[[], int],
) -> None:
    """Send every item once, at most ``places`` at a time, in order of their due times.

    Args:
        due: from ``due_times``.
        send: gets the item and the moment it was due on this clock (None in a closed loop).
        clock: monotonic nanoseconds.
    """
    free = asyncio.Semaphore(places)
    begin = clock()

    async def one(item: T, moment: int | None) -> None:
        try:
            await send(item, moment)
        finally:
            free.release()

    async with asyncio.TaskGroup() as group:
        for index, item in enumerate(items):
            moment = None if due is None else begin + due[index]
            if moment is not None:
                await asyncio.sleep(max(0.0, (moment - clock()) / NS_PER_S))
            await free.acquire()
            group.create_task(one(item, moment))
