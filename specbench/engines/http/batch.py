"""A batch of requests on the loop's thread; its traces are handed over as they end."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic_ns

from specbench.core.request import Request
from specbench.core.trace import Finish, Trace
from specbench.engines.http.faults import Fault, FaultKind
from specbench.engines.http.loop_thread import LoopThread
from specbench.engines.http.places import PROBE_S, Place
from specbench.engines.http.schedule import send_all
from specbench.engines.http.sender import Sender, failed

Ended = queue.SimpleQueue[Trace | None]


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests of one arm that run together, at most ``concurrency`` at a time.

    Attributes:
        due: moments from the batch's start in ns at which they are due; None = closed loop.
    """

    sender: Sender
    place: Place
    requests: Sequence[Request]
    concurrency: int
    due: Sequence[int] | None = None
    clock: Callable[[], int] = monotonic_ns

    def run(self, thread: LoopThread) -> Iterator[Trace]:
        """Traces in the order in which requests end. Leaving early, by Ctrl-C too, cancels."""
        ended: Ended = queue.SimpleQueue()
        future = thread.submit(self._work(ended))
        try:
            while (trace := ended.get()) is not None:
                yield trace
            future.result()
        finally:
            future.cancel()

    async def _work(self, ended: Ended) -> None:
        one_at_a_time = asyncio.Lock()

        async def send(request: Request, due_ns: int | None) -> None:
            ended.put(await self._one(request, due_ns, one_at_a_time))

        try:
            if self.place.lost and self.place.attached:
                self.place.lost = await self._silent()
            await send_all(self.requests, self.due, self.concurrency, send, self.clock)
        finally:
            ended.put(None)

    async def _one(self, request: Request, due_ns: int | None, lock: asyncio.Lock) -> Trace:
        arm, target = self.place.arm.name, self.place.target
        if self.place.lost or target is None:
            reason = self.place.lost or "its server was not started"
            return failed(request, arm, self.concurrency, due_ns or self.clock(), reason)
        trace, fault = await self.sender.send(target, request, arm, self.concurrency, due_ns)
        if trace.finish is Finish.ERROR and fault is not None and not fault.status:
            async with lock:
                self.place.lost = self.place.lost or await self._lost(fault)
            if self.place.lost:
                trace.error = f"{trace.error}; {self.place.lost}"
        return trace

    async def _lost(self, fault: Fault) -> str:
        """Why no further request can succeed after this fault; empty where one can."""
        if fault.kind is FaultKind.TOTAL:
            return ""
        if self.place.running is not None:
            return await asyncio.to_thread(self.place.gone)
        return await self._silent()

    async def _silent(self) -> str:
        """What an attached server's silence looks like; empty where it answers."""
        assert self.place.target is not None
        url = self.place.target.served.url
        # Any status is an answer.
        answer = await self.sender.client.get(f"{url}/v1/models", PROBE_S)
        if answer.fault is None or answer.fault.status:
            return ""
        return f"server {url} does not answer: {answer.fault.text}"
