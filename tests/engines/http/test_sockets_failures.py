"""Servers that refuse, break off, stall or report errors late; retries (cases D8, H2)."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from specbench.core.trace import Finish
from specbench.engines.http.dialects.openai import OpenAiDialect
from specbench.engines.http.sender import pause_s
from tests.engines.fake_server import (
    DONE,
    Ending,
    FakeServer,
    chat,
    error,
    refused,
    silent,
    stream,
    usage_only,
)
from tests.engines.http.attached import ARM, attached, decode, numbered, request

GOOD = stream(
    (0.0, chat("a")),
    (0.0, chat("b")),
    (0.0, chat("", finish="stop")),
    (0.0, usage_only(2, 5)),
    (0.0, DONE),
)
HALF = stream((0.0, chat("a")), (0.0, chat("b")))


def busy(status=503):
    """A refusal that asks to be tried again at once."""
    return refused(status, "busy", headers={"Retry-After": "0"})


def eventually(true):
    """Whether something becomes true within a bounded time."""
    deadline = time.monotonic() + 5
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    return true()


def gone(server, number):
    """Whether the server sees that the client of a request went away."""
    return eventually(lambda: number in server.departed)


def test_failed_requests_are_neither_hidden_nor_rewarded():
    """D8: 7 good, a 503, an error event after two tokens, a cut without an end mark."""
    late = stream(*HALF.writes, (0.0, error("the engine died")), (0.0, DONE))
    script = [GOOD] * 7 + [refused(503, "busy"), late, HALF]
    with FakeServer(script) as server:
        traces = decode(server, numbered(10))
    assert [trace.ok for trace in traces] == [True] * 7 + [False] * 3
    assert all(trace.finish == Finish.ERROR for trace in traces[7:])
    assert "503" in traces[7].error
    assert "busy" in traces[7].error
    assert "the engine died" in traces[8].error
    assert traces[9].error
    assert sum(sum(trace.arrivals.tokens) for trace in traces if trace.ok) == 14
    assert [trace.attempts for trace in traces] == [1] * 10


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (HALF.but(Ending.CUT), "ended too early"),
        (HALF.but(Ending.RESET), "broke"),
        (silent(Ending.CUT), "ended"),
        (silent(Ending.RESET), "broke"),
        (refused(400, "max_tokens is too large"), "max_tokens is too large"),
        (refused(500, "CUDA out of memory"), "CUDA out of memory"),
        (
            stream((0.0, chat("a")), (0.0, b'data: {"choices": [}\n\n'), (0.0, DONE)),
            "not one of a server",
        ),
        (stream((0.0, chat("a", finish="content_filter")), (0.0, DONE)), "content_filter"),
        (stream(*HALF.writes, (0.0, b"data: {")), "end"),
    ],
    ids=["cut", "reset", "closed", "reset at once", "400", "500", "broken JSON", "filter", "half"],
)
def test_a_broken_answer_is_an_error_with_its_reason(answer, said):
    with FakeServer([answer, GOOD]) as server:
        broken, good = decode(server, numbered(2))
    assert broken.finish == Finish.ERROR
    assert said in broken.error
    assert (good.finish, good.text) == (Finish.EOS, "ab")


@pytest.mark.parametrize("answer", [HALF.but(Ending.STALL), silent(Ending.STALL)])
def test_a_stall_ends_at_the_idle_timeout(answer):
    with FakeServer([answer, GOOD]) as server:
        stalled, good = decode(server, numbered(2), idle_timeout_s=0.2)
        assert gone(server, 0)
    assert stalled.finish == Finish.ERROR
    assert "0.2 s" in stalled.error
    assert good.ok


def test_a_stream_that_never_ends_has_a_timeout_too():
    drip = stream(*((0.05 * i, chat("a")) for i in range(200)))
    with FakeServer([drip, GOOD]) as server:
        endless, good = decode(server, numbered(2), timeout_s=0.4, idle_timeout_s=5.0)
        assert gone(server, 0)
    assert endless.finish == Finish.ERROR
    assert "timeout_s" in endless.error
    assert good.ok


@pytest.mark.parametrize(
    "first",
    [busy(), busy(429), silent(Ending.RESET), silent(Ending.CUT)],
    ids=["503", "429", "reset", "closed"],
)
def test_retries_are_counted_and_keep_their_start(first):
    with FakeServer([first, first, GOOD]) as server:
        (trace,) = decode(server, [request()], retries=2)
        assert len(server.requests) == 3
        assert server.requests[0] == server.requests[2]
        assert trace.start_ns <= server.received[0].t_ns
    assert (trace.ok, trace.attempts) == (True, 3)


@pytest.mark.parametrize(
    ("asked_s", "attempts", "pause"),
    [(0.0, 3, 0.0), (1.5, 1, 1.5), (99.0, 1, 5.0), (None, 1, 0.25), (None, 3, 1.0), (None, 9, 5.0)],
)
def test_the_pause_before_a_retry(asked_s, attempts, pause):
    """0 is a wish like any other; without one 0.25 s, then twice as long each time, up to 5 s."""
    assert pause_s(asked_s, attempts) == pause


class Surprised(OpenAiDialect):
    """Fails on one answer in a way that nobody thought of."""

    def piece(self, payload):
        piece = super().piece(payload)
        if piece.text == "b" and self.left:
            self.left -= 1
            raise RuntimeError("what is this")
        return piece

    left = 1


def test_an_answer_that_breaks_its_reader_is_one_failed_request():
    with FakeServer(GOOD) as server:
        odd, *others = decode(server, numbered(3), Surprised())
    assert odd.finish == Finish.ERROR
    assert "RuntimeError: what is this" in odd.error
    assert not odd.arrivals.t_ns
    assert odd.attempts == 1
    assert all(trace.ok for trace in others)


def test_retries_end():
    with FakeServer([busy()] * 5) as server:
        (trace,) = decode(server, [request()], retries=1)
        assert len(server.requests) == 2
    assert (trace.finish, trace.attempts) == (Finish.ERROR, 2)


@pytest.mark.parametrize(
    "first", [HALF, refused(400, "no"), refused(500, "no")], ids=["after a token", "400", "500"]
)
def test_what_is_never_tried_again(first):
    with FakeServer([first, GOOD]) as server:
        (trace,) = decode(server, [request()], retries=3)
        assert len(server.requests) == 1
    assert (trace.finish, trace.attempts) == (Finish.ERROR, 1)


def test_a_server_that_goes_away_fails_its_requests_and_no_more():
    with FakeServer(GOOD) as server, attached(server) as engine:
        assert next(iter(engine.run(ARM, [request()], 1))).ok
        server.close()
        traces = list(engine.run(ARM, numbered(3), 1))
    assert [trace.finish for trace in traces] == [Finish.ERROR] * 3
    assert all("refused" in trace.error for trace in traces)


def test_leaving_a_run_closes_its_connections():
    script = [GOOD, HALF.but(Ending.STALL), HALF.but(Ending.STALL)]
    with FakeServer(script) as server, attached(server, concurrency=3) as engine:
        traces = engine.run(ARM, numbered(3), 3)
        assert next(traces).ok
        assert eventually(lambda: all(server.writes[1:]) and len(server.writes) == 3)
        traces.close()
        assert gone(server, 1)
        assert gone(server, 2)


@pytest.fixture
def ctrl_c_arrives():
    """Also where the tests run in the background of a shell, which lets that signal be ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_arrives")
def test_ctrl_c_while_waiting_leaves_no_connection_and_no_thread():
    before = set(threading.enumerate())
    main = threading.main_thread().ident

    def press():
        eventually(lambda: server.writes and server.writes[0])
        signal.pthread_kill(main, signal.SIGINT)

    with FakeServer(HALF.but(Ending.STALL)) as server:
        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            decode(server, [request()])
        pressing.join()
        assert gone(server, 0)
    assert {one for one in threading.enumerate() if one.is_alive()} <= before
