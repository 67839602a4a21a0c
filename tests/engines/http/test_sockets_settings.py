"""What is sent and what the server made of it; conversations; open loops (cases E6, F4, H5)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import Finish
from specbench.engines.http.dialects.llamacpp import DIALECT as LLAMACPP
from specbench.engines.http.dialects.openai import DIALECT as OPENAI
from specbench.engines.http.dialects.sglang import DIALECT as SGLANG
from specbench.engines.http.dialects.trtllm import DIALECT as TRTLLM
from specbench.engines.http.dialects.vllm import DIALECT as VLLM
from specbench.engines.http.engine import HttpEngine
from specbench.measure.plan import plan_units
from specbench.measure.runner import Runner
from tests.engines.fake_server import (
    DONE,
    FakeServer,
    Habits,
    Speaker,
    TableModel,
    chat,
    refused,
    stream,
    usage_only,
)
from tests.engines.fake_server.table_model import END, text_of, tokenised
from tests.engines.http.attached import ARM, attached, decode, numbered, request
from tests.measure.fakes import Memory, conditions, prompt

ENDLESS = TableModel(end=-30.0)
IDS = tuple(tokenised("cat dog"))
SAMPLED = {"temperature": 0.7, "top_p": 0.9}
WAYS = [
    (OPENAI, "chat"),
    (VLLM, "ids"),
    (VLLM, "chat"),
    (SGLANG, "ids"),
    (TRTLLM, "ids"),
    (LLAMACPP, "ids"),
    (LLAMACPP, "chat"),
]


def flat(body):
    """A body with SGLang's nested settings beside its other fields."""
    nested = body.get("sampling_params") or {}
    return {**body, **nested}


@pytest.mark.parametrize(("dialect", "route"), WAYS, ids=lambda x: getattr(x, "name", x))
def test_every_sampling_field_is_sent(dialect, route, words):
    """H5: no default of the server gets a say."""
    speaker = Speaker(ENDLESS)
    with FakeServer(speaker) as server:
        decode(server, [request(ids=IDS, **SAMPLED)], dialect, route=route, tokenizer=words)
        body = flat(server.requests[0])
    assert (body["temperature"], body["top_p"]) == (0.7, 0.9)
    assert body["stream"] is True
    assert {"seed", "sampling_seed"} & body.keys()
    assert {"max_tokens", "max_new_tokens", "n_predict"} & body.keys()
    if dialect is not OPENAI:
        assert {"top_k", "min_p"} <= body.keys()
    assert speaker.said[0].settings.temperature == 0.7
    assert speaker.said[0].settings.seed is not None


@pytest.mark.parametrize(("dialect", "route"), WAYS, ids=lambda x: getattr(x, "name", x))
def test_what_the_model_said_is_what_is_recorded(dialect, route, words):
    """Tokens, text and counts of every route against the generator's own record."""
    speaker = Speaker()
    asked = [request(n, ids=IDS, seed=n, limit=12, ends=(END,), temperature=1.0) for n in range(6)]
    with FakeServer(speaker) as server:
        traces = decode(server, asked, dialect, route=route, tokenizer=words)
    said = [speaker.said[number] for number in range(6)]
    assert {one.finish for one in said} == {"end", "length"}
    for trace, one in zip(traces, said, strict=True):
        assert trace.text == text_of(one.ids)
        assert sum(trace.arrivals.tokens) == len(one.ids)
        assert trace.finish == (Finish.EOS if one.finish == "end" else Finish.LENGTH)
        assert trace.prompt_tokens == 2
        if trace.output_ids:
            assert tuple(trace.output_ids) == one.ids
            assert trace.hidden_end == 0


def test_equal_seeds_repeat_and_a_stop_string_stops():
    asked = [request(n, seed=9, temperature=1.0, strings=(" fox",), limit=200) for n in range(2)]
    with FakeServer(Speaker(ENDLESS)) as server:
        first, second = decode(server, asked)
    assert first.text == second.text
    assert first.finish == Finish.STOP
    assert " fox" not in first.text


def test_settings_that_the_server_changed_are_recorded(words):
    """H5: llama.cpp echoes what it used."""
    asked = [request(ids=IDS, **SAMPLED)]
    with FakeServer(Speaker(ENDLESS)) as server:
        (honest,) = decode(server, asked, LLAMACPP, route="ids", tokenizer=words)
    with FakeServer(Speaker(ENDLESS, Habits(temperature=1.0))) as server:
        (wrong,) = decode(server, asked, LLAMACPP, route="ids", tokenizer=words)
    assert honest.effective == {}
    assert wrong.effective == {"temperature": 1.0}


@pytest.mark.parametrize("dialect", [VLLM, SGLANG, LLAMACPP], ids=lambda dialect: dialect.name)
def test_a_second_start_token_is_noticed(dialect, words):
    """E6: ids were sent, the server counts one more."""
    with FakeServer(Speaker(ENDLESS, Habits(double_start=True))) as server:
        (trace,) = decode(server, [request(ids=IDS)], dialect, route="ids", tokenizer=words)
    assert trace.ok
    assert trace.prompt_tokens == 2
    assert trace.effective["prompt_tokens"] == 3


def salted(times, **options):
    """The salts of one request that is sent ``times`` times in one run, and of another run."""
    salts = []
    for _ in range(2):
        with FakeServer(Speaker(ENDLESS)) as server:
            decode(server, [request(0, ids=IDS)] * times, VLLM, route="chat", **options)
            salts += [body.get("cache_salt") for body in server.requests]
    return salts


def test_no_two_requests_share_a_prefix_where_caching_is_off():
    salts = salted(3)
    assert all(salts)
    assert len(set(salts)) == 6
    assert salted(1, prefix_cache="warm") == [None, None]


def test_an_attempt_shares_no_prefix_with_the_one_that_failed():
    with FakeServer(lambda got: refused(503, "no", headers={"Retry-After": "0"})) as server:
        decode(server, [request()], VLLM, retries=1)
        first, second = (body["cache_salt"] for body in server.requests)
    assert first != second


@pytest.mark.parametrize("dialect", [VLLM, TRTLLM], ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("template", [None, "none"], ids=["templated", "raw"])
def test_special_tokens_are_added_to_raw_text_alone(dialect, template, words):
    target = {"model": words, "template": template}
    with FakeServer(Speaker(ENDLESS)) as server:
        arms = [ArmSpec(ARM, server={"url": server.url})]
        server_table = {"route": "text", "tokenizer": words, "probes": False}
        engine = HttpEngine({**target, "server": server_table}, arms, dialect)
        engine.begin([ARM], 0)
        assert next(engine.run(ARM, [request(ids=IDS)], 1)).ok
        engine.close()
        [body] = server.requests
    assert body["add_special_tokens"] is (template == "none")


def converse(script, **options):
    """Two conversations of two turns through the runner: bodies by (item, turn), and traces."""
    settings = conditions()
    units = plan_units({"suite": [prompt("a", turns=2), prompt("b", turns=2)]}, settings, [ARM])
    sink = Memory()
    with FakeServer(script) as server:
        with attached(server, **options) as engine:
            Runner(engine, settings, sink, {}).run(units)
        return server.requests, sink.traces


def test_the_second_turn_holds_the_answer_to_the_first():
    """F4."""
    answer = stream((0.0, chat("R1", finish="stop")), (0.0, usage_only(2, 5)), (0.0, DONE))
    bodies, traces = converse(answer)
    assert len(bodies) == len(traces) == 4
    seconds = [body["messages"] for body in bodies if len(body["messages"]) > 1]
    assert len(seconds) == 2
    for messages in seconds:
        assert [one["role"] for one in messages] == ["user", "assistant", "user"]
        assert messages[1]["content"] == "R1"


def test_a_failed_first_turn_skips_the_second():
    """F4."""
    bodies, traces = converse(lambda got: refused(500, "no"))
    assert len(bodies) == 2
    assert sorted(trace.finish for trace in traces) == sorted(
        [Finish.ERROR, Finish.ERROR, Finish.SKIPPED, Finish.SKIPPED]
    )


def slow_first(got):
    """The first answer takes a while, the others are there at once."""
    at_s = 0.2 if got.number == 0 else 0.0
    return stream((at_s, chat("a", finish="stop")), (at_s, usage_only(1, 5)), (at_s, DONE))


@pytest.mark.parametrize(
    "arrival", [{"kind": "burst", "rate": None}, {"kind": "poisson", "rate": 100.0}]
)
def test_waiting_for_a_slow_server_counts_in_an_open_loop(arrival):
    """No coordinated omission: one place, so the others wait, and their latency says so."""
    with FakeServer(slow_first) as server:
        traces = decode(server, numbered(5), arrival=arrival)
        written = server.writes[0][0][0]
    first, *others = sorted(traces, key=lambda trace: trace.start_ns)
    for trace in others:
        assert trace.start_ns <= trace.sent_ns
        assert trace.sent_ns > written
    if arrival["kind"] == "burst":
        assert {trace.start_ns for trace in traces} == {first.start_ns}
    assert all(trace.ok for trace in traces)


def test_poisson_times_do_not_depend_on_the_server():
    """The same gaps from a quick and a slow server; their sum over many is count / rate."""

    def gaps(answer):
        with FakeServer(answer) as server:
            arrival = {"kind": "poisson", "rate": 400.0}
            traces = decode(server, numbered(80), concurrency=8, arrival=arrival)
        starts = sorted(trace.start_ns for trace in traces)
        return [b - a for a, b in pairwise(starts)]

    quick, slow = (
        gaps(stream((at, chat("a", finish="stop")), (at, usage_only(1, 5)), (at, DONE)))
        for at in (0.0, 0.03)
    )
    assert quick == pytest.approx(slow, abs=1000)
    # 79 gaps of mean 2.5 ms: sum 197.5 ms, standard deviation 22.2 ms
    assert sum(quick) * 1e-6 == pytest.approx(197.5, abs=4 * 22.2)


def test_closed_loop_keeps_its_places_full():
    with FakeServer(
        lambda got: stream((0.05, chat("a", finish="stop")), (0.05, usage_only(1, 5)), (0.05, DONE))
    ) as server:
        decode(server, numbered(9), concurrency=3)
        assert server.peak == 3


@pytest.mark.parametrize(("counted", "known"), [(True, 5), (False, 0)])
def test_a_prompt_that_the_server_rendered_is_as_long_as_the_server_says(counted, known):
    events = [(0.0, chat("cat")), (0.0, chat(" dog", finish="stop"))]
    events += [(0.0, usage_only(2, prompt=5))] if counted else []
    with FakeServer(stream(*events, (0.0, DONE))) as server, attached(server) as engine:
        # Ids are at hand, but the chat route sends none.
        (trace,) = engine.run(ARM, [request(ids=(1, 2, 3))], 1)
    assert trace.ok
    assert (trace.effective.get("prompt_tokens", trace.prompt_tokens)) == known
