"""A fake inference server for tests: real sockets on loopback, scripted bytes at scripted times.

    from tests.engines.fake_server import DONE, FakeServer, chat, stream, usage_only

    answer = stream((0.02, chat("", role="assistant")), (0.1, chat("Hi")),
                    (0.13, chat(" there", finish="stop")), (0.131, usage_only(2, prompt=5)),
                    (0.131, DONE))
    with FakeServer(answer) as server:
        ...                                    # requests to server.url + "/v1/chat/completions"
        server.requests[0]["temperature"]      # what the client sent
        server.writes[0][1][0]                 # monotonic ns at which "Hi" was written

Faults: ``refused(503, "...")``; ``answer.but(Ending.CUT)`` half a stream, ``Ending.RESET``,
``Ending.STALL``; ``silent(Ending.STALL)`` without a status line; ``error("...")`` as an event after
200; ``whole(payload)`` for a server that does not stream; ``cut_at(data, offsets)`` for every cut.
A sequence of answers is played in order, so ``[refused(503, "busy"), answer]`` tries retries.

``Speaker`` is a script that talks: a table language model (``TableModel``, the law of every token
is known) behind OpenAI, vLLM, SGLang or llama.cpp routes, with habits such as a wrong temperature,
an ignored seed, or lossy speculation. ``CounterPage`` is its /metrics, ``checkpoint`` writes the
same law as a folder that transformers loads, with its tokenizer.

    speaker = Speaker(habits=Habits(temperature=0.0), counters=CounterPage(engine="0"))
    with FakeServer(speaker, pages={"/metrics": speaker.counters}) as server:
        ...
        speaker.said[0].ids                    # what was really generated for request 0
"""

from tests.engines.fake_server.answer import (
    Answer,
    Ending,
    Framing,
    Received,
    cut_at,
    page,
    refused,
    silent,
    stream,
    whole,
)
from tests.engines.fake_server.counter_page import CounterPage
from tests.engines.fake_server.events import (
    DONE,
    PING,
    chat,
    error,
    event,
    text,
    usage,
    usage_only,
)
from tests.engines.fake_server.server import FakeServer
from tests.engines.fake_server.speaker import Habits, Speaker
from tests.engines.fake_server.speculation import Speculation
from tests.engines.fake_server.table_model import TableModel

__all__ = [
    "DONE",
    "PING",
    "Answer",
    "CounterPage",
    "Ending",
    "FakeServer",
    "Framing",
    "Habits",
    "Received",
    "Speaker",
    "Speculation",
    "TableModel",
    "chat",
    "cut_at",
    "error",
    "event",
    "page",
    "refused",
    "silent",
    "stream",
    "text",
    "usage",
    "usage_only",
    "whole",
]
