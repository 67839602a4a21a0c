"""One event loop in a thread of its own, so that reading never waits for whoever reads results."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

JOIN_S = 10.0


class LoopThread:
    """Runs coroutines until it is closed. A daemon: a program that ends does not wait for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._last: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._serve, name="specbench http", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work; its result, error or cancellation is the future's."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work and wait for it; Ctrl-C here cancels it there."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], None]) -> None:
        """Cancel what still runs, do a last thing, end the thread. Harmless when repeated."""
        if self._thread.is_alive():
            self._last = last
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(JOIN_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._last()
            # Connections are really closed in the loop's next round.
            self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            self._loop.close()
