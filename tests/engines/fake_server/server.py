"""A real HTTP/1.1 server on a free port of 127.0.0.1, in a thread, that plays a script."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType

from tests.engines.fake_server.answer import Answer, Received, page, refused, whole
from tests.engines.fake_server.wire import NOT_HTTP, StampedReader, Wrote, play, read_request

Script = Answer | Sequence[Answer] | Callable[[Received], Answer]
Page = Answer | Callable[[], Answer]


class FakeServer:
    """``with FakeServer(script) as server: ...``; traffic goes to ``server.url``.

    Args:
        script: what POST requests get: the same answer each time, a sequence played in order of
            arrival (500 after its end), or a function of the request. An exception of that
            function is a 500, and is raised again when the server closes.
        models: what /v1/models lists.
        context: ``max_model_len`` of the models; None leaves it out.
        pages: answers to GET by path, beside or instead of /v1/models and /health; put a
            ``CounterPage`` at "/metrics". Other paths are 404.
        paths: POST paths that exist; None = all. Others are 404.
        api_key: where set, everything but /health wants ``Authorization: Bearer <key>`` (401).
        tls: server-side context; the address is then https.

    Attributes, all readable while it runs:
        received: POST requests in order of arrival; ``requests`` are their bodies.
        writes: by request number, what was written when: [(monotonic ns, body bytes)].
        departed: numbers of requests whose client went away before the answer's end.
        visits: paths of GET requests, in order.
        peak: most POST requests in flight at one time; ``connections`` open now.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        models: Sequence[str] = ("fake",),
        context: int | None = None,
        pages: Mapping[str, Page] | None = None,
        paths: Sequence[str] | None = None,
        api_key: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._script = script
        self._paths = paths
        self._api_key = api_key
        self._tls = tls
        self._pages = {
            "/health": page(""),
            "/v1/models": whole(_listed(models, context)),
            **(pages or {}),
        }
        self.received: list[Received] = []
        self.writes: list[list[Wrote]] = []
        self.departed: list[int] = []
        self.visits: list[str] = []
        self.peak = 0
        self.connections = 0
        self.url = ""
        self._in_flight = 0
        self._errors: list[Exception] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None

    @property
    def requests(self) -> list[Mapping[str, object]]:
        """Bodies of the POST requests, in order of arrival."""
        return [received.body for received in self.received]

    def __enter__(self) -> FakeServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
        if error is None and self._errors:
            raise self._errors[0]

    def close(self) -> None:
        """Stop listening and drop all connections; further connections are refused."""
        if self._thread.is_alive() and self._loop is not None and self._closing is not None:
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connection() -> asyncio.StreamReaderProtocol:
            reader = StampedReader(loop=self._loop)
            return asyncio.StreamReaderProtocol(reader, partial(connected, reader), self._loop)

        def connected(
            reader: StampedReader, _: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            task = asyncio.create_task(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        server = await self._loop.create_server(
            connection, "127.0.0.1", 0, ssl=self._tls, backlog=512
        )
        port = server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        self._ready.set()
        await self._closing.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: StampedReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        port = writer.get_extra_info("peername")[1]
        try:
            going = True
            while going and (received := await read_request(reader, port)) is not None:
                if received.method == "POST":
                    going = await self._post(received, reader, writer)
                else:
                    self.visits.append(received.path)
                    answer = self._page(received)
                    going = await play(answer, received, reader, writer, lambda wrote: None)
        except ConnectionError:
            pass
        except ValueError:
            writer.write(NOT_HTTP)
        finally:
            self.connections -= 1
            writer.close()

    async def _post(
        self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        received = dataclasses.replace(received, number=len(self.received))
        self.received.append(received)
        wrote: list[Wrote] = []
        self.writes.append(wrote)
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        try:
            return await play(self._answer(received), received, reader, writer, wrote.append)
        except ConnectionError:
            self.departed.append(received.number)
            raise
        finally:
            self._in_flight -= 1

    def _answer(self, received: Received) -> Answer:
        if not self._admitted(received):
            return refused(401, "Incorrect API key provided")
        if self._paths is not None and received.path not in self._paths:
            return refused(404, "Not Found")
        if isinstance(self._script, Answer):
            return self._script
        if not callable(self._script):
            if received.number < len(self._script):
                return self._script[received.number]
            return refused(500, f"the script has only {len(self._script)} answers")
        try:
            return self._script(received)
        except Exception as error:
            self._errors.append(error)
            return refused(500, f"the script failed: {error!r}")

    def _page(self, received: Received) -> Answer:
        if received.path != "/health" and not self._admitted(received):
            return refused(401, "Incorrect API key provided")
        found = self._pages.get(received.path)
        if found is None:
            return refused(404, "Not Found")
        return found() if callable(found) else found

    def _admitted(self, received: Received) -> bool:
        given = received.headers.get("authorization", "")
        return self._api_key is None or given == f"Bearer {self._api_key}"


def _listed(models: Sequence[str], context: int | None) -> dict[str, object]:
    room = {} if context is None else {"max_model_len": context}
    return {"object": "list", "data": [{"id": name, "object": "model"} | room for name in models]}
