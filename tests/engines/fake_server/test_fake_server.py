"""The fake server itself, seen through the standard library's client and through arithmetic."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.engines.fake_server import (
    DONE,
    CounterPage,
    Ending,
    FakeServer,
    Framing,
    Habits,
    Speaker,
    Speculation,
    TableModel,
    chat,
    cut_at,
    refused,
    silent,
    stream,
    text,
)
from tests.engines.fake_server.answer import Answer
from tests.engines.fake_server.speculation import speak
from tests.engines.fake_server.table_model import END, Settings, tokenised

HI = stream((0.0, chat("Hi")), (0.02, chat(" there", finish="stop")), (0.02, DONE))


def post(server, body, path="/v1/completions"):
    """(status, body bytes) of one request over a connection of its own."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


def test_an_answer_is_played_and_recorded():
    before = time.monotonic_ns()
    with FakeServer(HI) as server:
        assert post(server, {"temperature": 0.5}) == (200, b"".join(w for _, w in HI.writes))
        assert server.requests == [{"temperature": 0.5}]
        times = [at for at, _ in server.writes[0]]
        assert before < server.received[0].t_ns <= times[0]
        assert times[1] - server.received[0].t_ns >= 20e6
        assert times == sorted(times)


def test_a_sequence_is_played_in_order_and_ends():
    with FakeServer([refused(503, "busy"), HI]) as server:
        assert [post(server, {})[0] for _ in range(3)] == [503, 200, 500]


def test_a_connection_is_kept():
    with FakeServer(HI) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
        for _ in range(2):
            connection.request("POST", "/", "{}")
            connection.getresponse().read()
        connection.close()
        assert server.received[0].port == server.received[1].port


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (HI.but(Ending.CUT), http.client.IncompleteRead),
        (HI.but(Ending.RESET), ConnectionResetError),
        (silent(Ending.CUT), http.client.RemoteDisconnected),
        (silent(Ending.RESET), ConnectionResetError),
    ],
)
def test_broken_endings(answer, error):
    with FakeServer(answer) as server, pytest.raises(error):
        post(server, {})


def test_a_stall_lasts_until_the_client_goes():
    with FakeServer(HI.but(Ending.STALL)) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=0.2)
        connection.request("POST", "/", "{}")
        with pytest.raises(TimeoutError):
            connection.getresponse().read()
        assert server.departed == []
        connection.close()
        deadline = time.monotonic() + 5
        while not server.departed and time.monotonic() < deadline:
            time.sleep(0.005)
        assert server.departed == [0]


@pytest.mark.parametrize("framing", list(Framing))
def test_every_framing_and_cut_gives_the_same_bytes(framing):
    data = b"".join(write for _, write in HI.writes)
    answer = Answer(cut_at(data, [1, 7, 30]).writes, framing=framing)
    with FakeServer(answer) as server:
        assert post(server, {}) == (200, data)
        assert [len(write) for _, write in server.writes[0]] == [1, 6, 23, len(data) - 30]


def test_keys_models_pages_and_paths():
    pages = {"/metrics": CounterPage()}
    with FakeServer(HI, models=["m"], api_key="k", paths=["/a"], pages=pages) as server:
        assert post(server, {}, "/a")[0] == 401
        asking = urllib.request.Request(server.url + "/v1/models")
        asking.add_header("Authorization", "Bearer k")
        assert json.load(urllib.request.urlopen(asking))["data"][0]["id"] == "m"
        urllib.request.urlopen(server.url + "/health").read()
        assert server.visits == ["/v1/models", "/health"]
    with FakeServer(HI, paths=["/a"]) as server:
        assert [post(server, {}, path)[0] for path in ("/a", "/b")] == [200, 404]


def test_an_error_of_the_script_is_raised_when_the_server_closes():
    server = FakeServer(lambda received: {}["no"])
    with pytest.raises(KeyError), server:
        assert post(server, {})[0] == 500


def test_counters_are_summed_by_series_and_restart():
    page = CounterPage(engine="0")
    page.add("vllm:x_total", 3, position="1")
    page.add("vllm:x_total", 4, position="1")
    assert 'vllm:x_total{engine="0",position="1"} 7' in page.text()
    assert 'vllm:x_created{engine="0",position="1"} 1770000000.0' in page.text()
    page.restart()
    assert 'vllm:x_total{engine="0",position="1"} 0' in page.text()


def test_truncations_by_hand():
    model = TableModel()
    model.logits[5] = -1e9
    model.logits[5, 2:6] = np.log([0.5, 0.25, 0.15, 0.1])

    def law(**settings):
        return model.law(5, Settings(**settings))[2:6]

    assert law() == pytest.approx([0.5, 0.25, 0.15, 0.1])
    # squares 0.25, 0.0625, 0.0225, 0.01: sum 0.345
    assert law(temperature=0.5) == pytest.approx(np.array([0.25, 0.0625, 0.0225, 0.01]) / 0.345)
    assert law(top_k=2) == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert law(top_p=0.8) == pytest.approx([5 / 9, 2.5 / 9, 1.5 / 9, 0])
    assert law(min_p=0.4) == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert law(temperature=0.0) == pytest.approx([1, 0, 0, 0])


def pair_law(model, first, settings):
    """Probabilities of (first, second) token after ``first``; an end stays an end."""
    one = model.law(first, settings)
    return {
        (a, b): one[a] * (model.law(a, settings)[b] if a != END else float(b == END))
        for a in range(len(one))
        for b in range(len(one))
    }


@pytest.mark.parametrize("lenience", [1.0, 0.3])
def test_speculation_keeps_the_law_unless_lenient(lenience):
    model = TableModel(spread=1.5)
    settings = Settings(temperature=0.9, top_p=0.95, max_tokens=3)
    speculation = Speculation(model.drafted_by(1.5), 2, lenience)
    random = np.random.default_rng(7)
    prompt = [4]
    drawn = [speak(model, prompt, settings, random, speculation).ids for _ in range(4000)]
    pairs = pair_law(model, 4, settings)
    # pairs that are too rare for the test are one class
    kept = [pair for pair, chance in pairs.items() if chance * len(drawn) >= 5 and END not in pair]
    seen = [sum(ids[:2] == pair for ids in drawn) for pair in kept]
    expected = [pairs[pair] * len(drawn) for pair in kept]
    other = (len(drawn) - sum(seen), len(drawn) - sum(expected))
    chance = chisquare([*seen, other[0]], [*expected, other[1]]).pvalue
    assert (chance > 1e-3) if lenience == 1.0 else (chance < 1e-6)


def test_a_step_is_cut_at_its_end_but_counts_what_was_accepted():
    model = TableModel(end=30.0)
    spoken = speak(model, [4], Settings(), np.random.default_rng(0))
    assert (spoken.ids, spoken.finish) == ((END,), "end")
    # every row says: bee (id 3) except that bee is followed by the end
    model = TableModel()
    model.logits[:] = -50.0
    model.logits[:, 3] = 50.0
    model.logits[3, [3, END]] = -50.0, 50.0
    spoken = speak(model, [4], Settings(), np.random.default_rng(0), Speculation(model, 3))
    assert spoken.ids == (3, END)
    assert [(len(s.tokens), s.drafted, s.accepted) for s in spoken.steps] == [(1, 0, 0), (1, 3, 3)]


def events(data):
    return [json.loads(e[6:]) for e in data.decode().split("\n\n") if e.startswith("data: {")]


def test_the_speaker_says_the_same_on_every_route():
    speaker = Speaker(habits=Habits(speculation=Speculation(TableModel().drafted_by(0.5), 3)))
    ids = tokenised("cat dog")
    bodies = {
        "/v1/completions": {"prompt": ids, "seed": 3, "max_tokens": 9, "return_token_ids": True},
        "/completion": {"prompt": ids, "seed": 3, "n_predict": 9},
        "/generate": {
            "input_ids": ids,
            "sampling_params": {"sampling_seed": 3, "max_new_tokens": 9},
        },
    }
    with FakeServer(speaker) as server:
        answers = [
            events(post(server, {**body, "stream": True}, path)[1]) for path, body in bodies.items()
        ]
    said = speaker.said[0]
    shown = [number for number in said.ids if number != END]
    openai, llamacpp, sglang = answers
    choices = [choice for one in openai for choice in one["choices"]]
    assert [token for one in choices for token in one.get("token_ids", ())] == list(said.ids)
    assert [token for one in llamacpp for token in one["tokens"]] == shown
    assert sglang[-1]["output_ids"] == list(said.ids)
    accepted = sum(step.accepted for step in said.steps)
    assert llamacpp[-1]["timings"]["draft_n_accepted"] == accepted
    assert sglang[-1]["meta_info"]["spec_accepted_drafts"] == accepted
    steps = {one["timings"]["predicted_ms"] for one in llamacpp}
    assert len(steps) == len([s for s in said.steps if set(s.tokens) != {END}])


def test_habits():
    """Greedy sold as sampling, an ignored seed, a refused field, one start token too many."""
    ask = {"prompt": [4], "seed": 3, "max_tokens": 8, "temperature": 1.0}

    def said(habits, times=2):
        speaker = Speaker(TableModel(end=-30.0), habits)
        with FakeServer(speaker) as server:
            status = [post(server, ask)[0] for _ in range(times)]
        return status, [speaker.said[i].ids for i in range(times) if i in speaker.said]

    honest = said(Habits())[1]
    assert honest[0] == honest[1]
    unseeded = said(Habits(ignores=frozenset({"seed"})))[1]
    assert unseeded[0] != unseeded[1]
    greedy = [int(row.argmax()) for row in TableModel(end=-30.0).logits]
    ids = said(Habits(temperature=0.0))[1][0]
    assert all(b == greedy[a] for a, b in zip((4, *ids), ids, strict=False))
    assert said(Habits(refuses=frozenset({"seed"}))) == ([400, 400], [])
    speaker = Speaker(habits=Habits(double_start=True))
    with FakeServer(speaker) as server:
        counted = json.loads(post(server, ask)[1])["usage"]
    assert counted["prompt_tokens"] == 2


def test_text_events_have_the_fields_asked_for():
    one = events(text(" a", finish="stop", token_ids=[1], beside={"timings": {}}))[0]
    assert one["timings"] == {}
    assert one["choices"][0] == {
        "index": 0,
        "text": " a",
        "finish_reason": "stop",
        "token_ids": [1],
    }


def test_the_checkpoint_has_the_tables_law(tmp_path, one_thread):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tests.engines.fake_server.checkpoint import write_checkpoint

    model = TableModel()
    write_checkpoint(tmp_path, model)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("cat dog wolf")["input_ids"]
    assert ids == tokenised("cat dog wolf")
    logits = AutoModelForCausalLM.from_pretrained(tmp_path)(torch.tensor([ids])).logits[0]
    np.testing.assert_allclose(logits.detach().numpy(), model.logits[ids], atol=1e-5)
