"""Acceptance from a server: in the answers, or on its counter page around them (cases C6, C7)."""

from __future__ import annotations

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import Granularity
from specbench.engines.http.dialects.llamacpp import DIALECT as LLAMACPP
from specbench.engines.http.dialects.sglang import DIALECT as SGLANG
from specbench.engines.http.dialects.vllm import DIALECT as VLLM
from tests.engines.fake_server import (
    DONE,
    CounterPage,
    FakeServer,
    Habits,
    Speaker,
    Speculation,
    TableModel,
    chat,
    refused,
    stream,
    usage_only,
)
from tests.engines.http.attached import ARM, attached, decode, numbered, request

ANSWER = stream((0.0, chat("a", finish="stop")), (0.0, usage_only(1, 5)), (0.0, DONE))
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
SUCCESS = "vllm:request_success_total"


def move(page, drafts, drafted, accepted, requests=0, **labels):
    """Move the counters of one engine on."""
    page.add(SUCCESS, requests, finished_reason="stop", **labels)
    page.add(DRAFTS, drafts, **labels)
    page.add(DRAFTED, drafted, **labels)
    page.add(ACCEPTED, accepted, **labels)


def run(page, moved, dialect=VLLM, count=10, more=()):
    """The window of ``count`` requests, each of which moves the counters."""

    def script(got):
        moved(got.number)
        return ANSWER

    with FakeServer(script, pages={"/metrics": page}) as server:
        urls = [f"{server.url}/metrics", *more]
        with attached(server, dialect, metrics_urls=urls) as engine:
            traces = list(engine.run(ARM, numbered(count), 1))
            windows = list(engine.drain_windows())
    assert all(trace.ok and len(trace.arrivals) for trace in traces)
    assert all(trace.tally is None and len(trace.steps) == 0 for trace in traces)
    return windows


def test_counters_are_deltas_over_the_window():
    """C7: 100 drafts and 250 accepted before, 160 and 370 after."""
    page = CounterPage(engine="0")
    move(page, 100, 500, 250, requests=40)
    (window,) = run(page, lambda n: move(page, 6, 30, 12, requests=1))
    assert (window.sent, window.reason) == (10, "")
    assert window.tally.drafted_steps == 60
    assert window.tally.accepted == 120
    assert window.tally.verified == 300


def test_engines_are_summed():
    """C7: position 0 accepted in 8 of 10 and in 18 of 20 steps."""
    page = CounterPage()
    move(page, 0, 0, 0, engine="0")
    move(page, 0, 0, 0, engine="1")
    for engine in ("0", "1"):
        page.add(AT, 0, position="0", engine=engine)

    def moved(number):
        engine, drafts, accepted = (("0", 10, 8), ("1", 20, 18))[number]
        move(page, drafts, drafts, accepted, requests=1, engine=engine)
        page.add(AT, accepted, position="0", engine=engine)

    (window,) = run(page, moved, count=2)
    assert (window.tally.drafted_steps, list(window.tally.accepted_at)) == (30, [26])


def test_replicas_are_summed():
    """Two addresses of counters."""
    page, other = CounterPage(engine="0"), CounterPage(engine="0")
    move(page, 5, 5, 5)
    move(other, 7, 7, 7)
    pages = {"/metrics": other}
    with FakeServer(ANSWER, pages=pages) as replica:

        def moved(number):
            chosen = page if number % 2 else other
            move(chosen, 1, 2, 1, requests=1)

        (window,) = run(page, moved, more=[f"{replica.url}/metrics"])
    assert (window.tally.drafted_steps, window.tally.verified) == (10, 20)


def test_a_restart_is_refused():
    """C7: after < before."""
    page = CounterPage(engine="0")
    move(page, 100, 500, 250, requests=100)

    def moved(number):
        if number == 4:
            page.restart()
        move(page, 6, 30, 12, requests=1)

    (window,) = run(page, moved)
    assert window.tally is None
    assert "restart" in window.reason


def test_other_traffic_is_refused():
    page = CounterPage(engine="0")
    move(page, 0, 0, 0)

    def moved(number):
        move(page, 6, 30, 12, requests=1 + (number == 4))

    (window,) = run(page, moved)
    assert window.tally is None
    assert "11" in window.reason
    assert "10" in window.reason


def test_a_server_without_counters_has_no_acceptance_but_timings():
    """C6 (ii): no such page."""
    with FakeServer(ANSWER) as server, attached(server, VLLM) as engine:
        (trace,) = engine.run(ARM, numbered(1), 1)
        (window,) = engine.drain_windows()
    assert trace.arrivals.t_ns
    assert trace.tally is None
    assert (window.sent, window.tally) == (1, None)
    assert "counters cannot be read" in window.reason
    assert "404" in window.reason


def test_a_server_that_does_not_draft_counts_no_speculation():
    """The plain arm beside a drafting one: each has the window of its own server."""
    plain, draft = CounterPage(engine="0"), CounterPage(engine="0")
    plain.add(SUCCESS, 5, finished_reason="stop")
    move(draft, 0, 0, 0)

    def counted(got):
        plain.add(SUCCESS, 1, finished_reason="stop")
        return ANSWER

    def drafted(got):
        move(draft, 2, 6, 3, requests=1)
        return ANSWER

    with (
        FakeServer(counted, pages={"/metrics": plain}) as one,
        FakeServer(drafted, pages={"/metrics": draft}) as other,
    ):
        arms = [
            ArmSpec(ARM, engine="vllm", server={"url": one.url}),
            ArmSpec("draft", "unknown", 0, "unknown", "vllm", server={"url": other.url}),
        ]
        with attached(one, VLLM, arms=arms) as engine:
            windows = []
            for arm in arms:
                list(engine.run(arm.name, numbered(3), 1))
                windows += engine.drain_windows()
    bare, speculative = windows
    assert (bare.sent, bare.tally) == (3, None)
    assert "counts no speculation" in bare.reason
    assert (speculative.sent, speculative.tally.verified) == (3, 18)


def test_a_window_with_a_failed_request_is_refused():
    """The server counted what it drafted for an answer that broke off; its tokens are not ours."""
    page = CounterPage(engine="0")
    move(page, 0, 0, 0)

    def broken(got):
        move(page, 6, 30, 12, requests=1)
        return refused(500, "out of memory") if got.number == 1 else ANSWER

    with FakeServer(broken, pages={"/metrics": page}) as server, attached(server, VLLM) as engine:
        traces = list(engine.run(ARM, numbered(4), 1))
        (window,) = engine.drain_windows()
    assert [trace.ok for trace in traces] == [True, False, True, True]
    assert (window.sent, window.tally) == (4, None)
    assert "failed after it was sent" in window.reason
    assert "out of memory" in window.reason


def test_a_request_that_was_never_sent_is_none_of_the_window():
    page = CounterPage(engine="0")
    move(page, 0, 0, 0)

    def moved(got):
        move(page, 6, 30, 12, requests=1)
        return ANSWER

    unsendable = request(9, temperature=0.7, top_p=0.9, min_p=0.1)
    with FakeServer(moved, pages={"/metrics": page}) as server, attached(server, VLLM) as engine:
        traces = list(engine.run(ARM, [*numbered(2), unsendable], 1))
        (window,) = engine.drain_windows()
    assert [trace.attempts for trace in traces] == [1, 1, 0]
    assert (window.sent, window.tally.drafted_steps) == (2, 12)


@pytest.mark.parametrize("dialect", [VLLM], ids=lambda dialect: dialect.name)
def test_a_speaking_server_counts_what_it_did(dialect):
    speculation = Speculation(TableModel().drafted_by(1.0), 3)
    speaker = Speaker(habits=Habits(speculation=speculation), counters=CounterPage(engine="0"))
    with FakeServer(speaker, pages={"/metrics": speaker.counters}) as server:
        urls = [f"{server.url}/metrics"]
        with attached(server, dialect, metrics_urls=urls) as engine:
            list(engine.run(ARM, numbered(4, temperature=1.0), 2))
            (window,) = engine.drain_windows()
    drafts = [step for one in speaker.said.values() for step in one.drafts]
    assert window.tally.drafted_steps == len(drafts)
    assert window.tally.verified == sum(step.drafted for step in drafts)
    assert window.tally.accepted == sum(step.accepted for step in drafts)


ENDLESS = TableModel(end=-30.0)
DRAFTING = Habits(speculation=Speculation(ENDLESS.drafted_by(1.0), 3))


def drafted(dialect, words):
    """Traces of sampled requests from a drafting server, and what it did."""
    speaker = Speaker(ENDLESS, DRAFTING)
    asked = [request(n, ids=(5, 9), seed=n, limit=20, temperature=1.0) for n in range(4)]
    with FakeServer(speaker) as server:
        traces = decode(server, asked, dialect, route="ids", tokenizer=words)
    return traces, [speaker.said[number] for number in range(4)]


def test_steps_of_llama_cpp_are_those_that_were_decoded(words):
    """Chunks of one step share their clock; the prefill's token is no step (C8)."""
    traces, said = drafted(LLAMACPP, words)
    for trace, one in zip(traces, said, strict=True):
        decoded = one.steps[1:]
        assert trace.granularity == Granularity.STEP
        assert trace.steps.committed == [len(step.tokens) for step in decoded]
        assert trace.steps.verified == [step.drafted for step in decoded]
        assert trace.steps.accepted == [step.accepted for step in decoded]
        assert 1 + sum(trace.steps.committed) == sum(trace.arrivals.tokens) == 20


def test_totals_of_sglang_are_those_of_its_steps(words):
    traces, said = drafted(SGLANG, words)
    for trace, one in zip(traces, said, strict=True):
        assert trace.granularity == Granularity.CHUNK
        assert len(trace.steps) == 0
        assert trace.tally.accepted == sum(step.accepted for step in one.steps)
        assert trace.tally.steps == len(one.steps) - 1
