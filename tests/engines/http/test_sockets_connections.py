"""Connections that are used again, and servers that drop them without a word."""

from __future__ import annotations

import pytest

from specbench.core.trace import Finish
from specbench.engines.http.dialects.llamacpp import DIALECT as LLAMACPP
from specbench.engines.http.dialects.openai import DIALECT as OPENAI
from tests.engines.fake_server import (
    DONE,
    Ending,
    FakeServer,
    Speaker,
    chat,
    silent,
    stream,
    usage_only,
)
from tests.engines.http.attached import ARM, attached, numbered

GOOD = stream((0.0, chat("ab", finish="stop")), (0.0, usage_only(2, 5)), (0.0, DONE))


def talk(script, count, dialect=OPENAI, **options):
    """Traces, the client's ports by request as the server saw them, and what was sent again."""
    with FakeServer(script) as server:
        with attached(server, dialect, **options) as engine:
            traces = list(engine.run(ARM, numbered(count), 1))
            resent = engine.describe()["resent_requests"]
        return traces, [got.port for got in server.received], resent


def test_a_connection_is_used_again_and_pages_have_their_own():
    traces, ports, resent = talk(GOOD, 3)
    assert all(trace.ok for trace in traces)
    assert len(set(ports)) == 1
    assert resent == 0


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
def test_a_dropped_connection_is_met_once_and_then_none_is_kept(ending):
    """Requests at the server: 0 good, 1 dropped, 1 again, 2, 3: each of the last on its own."""
    traces, ports, resent = talk([GOOD, silent(ending), GOOD, GOOD, GOOD], 4)
    assert all(trace.ok for trace in traces)
    assert [trace.attempts for trace in traces] == [1] * 4
    assert resent == 1
    assert ports[0] == ports[1]
    assert len(set(ports[1:])) == 4


@pytest.mark.parametrize("ending", [Ending.CUT, Ending.RESET])
def test_a_new_connection_without_an_answer_is_a_failure(ending):
    """The first request has a new connection; the third is sent again on one, and fails there."""
    (first,), ports, resent = talk([silent(ending), GOOD], 1)
    assert (first.finish, len(ports), resent) == (Finish.ERROR, 1, 0)
    script = [GOOD, silent(ending), silent(ending), GOOD, GOOD]
    traces, ports, resent = talk(script, 4)
    assert [trace.ok for trace in traces] == [True, False, True, True]
    assert (len(ports), resent) == (5, 1)


def test_an_answer_that_has_begun_is_never_asked_for_again():
    half = stream((0.0, chat("a"))).but(Ending.CUT)
    traces, ports, resent = talk([GOOD, half, GOOD], 3)
    assert [trace.ok for trace in traces] == [True, False, True]
    assert (len(ports), resent) == (3, 0)


def test_a_server_that_is_known_to_drop_connections_gets_a_new_one_each_time():
    traces, ports, resent = talk(Speaker(), 3, LLAMACPP)
    assert all(trace.ok for trace in traces)
    assert len(set(ports)) == 3
    assert resent == 0
