"""What each kind of server is asked, and what its answer becomes; servers are played."""

from __future__ import annotations

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.engines.http.options import server_options
from specbench.engines.scoring import reference as module
from specbench.engines.scoring.reference import SCORERS, ServerReference
from specbench.engines.scoring.talk import Talk
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from tests.fidelity.table_model import SIZE, TableModel

MODEL = TableModel(seed=3)
PROMPT, OUTPUT = (5, 9), [11, 2, 60]
KEY = RequestKey("s", "a", 0, 0.7, 0)


def logs(before):
    """Natural log-probabilities behind a token, whole."""
    row = MODEL.logits[before]
    return row - np.log(np.exp(row).sum())


def best(before, count):
    """(id, log) of the likeliest tokens behind one."""
    row = logs(before)
    return [(int(i), float(row[i])) for i in np.argsort(-row)[:count]]


def vllm(body):
    """Top tokens, and the prompt's own where it is not among them; nothing for the first."""
    rows = [None]
    for before, token in zip(body["prompt"], body["prompt"][1:], strict=False):
        listed = dict(best(before, body["prompt_logprobs"]))
        listed[token] = float(logs(before)[token])
        rows.append(
            {str(i): {"logprob": x, "rank": 1, "decoded_token": "?"} for i, x in listed.items()}
        )
    return {"choices": [{"prompt_logprobs": rows}]}


def sglang(body):
    ids, start = body["input_ids"], body["logprob_start_len"]
    pairs = list(zip(ids[start:], ids[start + 1 :], strict=False))
    own = [[None, ids[start], None]]
    own += [[float(logs(before)[token]), token, None] for before, token in pairs]
    rows = [None]
    for before, _ in pairs:
        rows.append([[x, i, None] for i, x in best(before, body["top_logprobs_num"])])
    return {"meta_info": {"input_token_logprobs": own, "input_top_logprobs": rows}}


def llamacpp(body):
    listed = [{"id": i, "logprob": x} for i, x in best(body["prompt"][-1], body["n_probs"])]
    return {
        "tokens_evaluated": len(body["prompt"]),
        "completion_probabilities": [{"id": 1, "top_logprobs": listed}],
    }


PLAYED = {
    "vllm": ("/v1/completions", vllm),
    "sglang": ("/generate", sglang),
    "llamacpp": ("/completion", llamacpp),
}


class Played:
    """A server on no socket; ``change`` may replace an answer."""

    def __init__(self, kind, change=None, models=("m",)):
        self.path, self.answer = PLAYED[kind]
        self.change = change
        self.models = models
        self.asked = []
        self.headers = []

    def __call__(self, request):
        self.headers.append(request.headers)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": name} for name in self.models]})
        body = json.loads(request.content)
        if request.url.path == "/tokenize" and self.path == "/completion":
            return httpx.Response(200, json={"tokens": [33]})
        assert request.url.path == self.path
        self.asked.append(body)
        found = self.answer(body)
        return self.change(found) if self.change else httpx.Response(200, json=found)


class FakeTokens:
    """Ids 60 and 61 end an answer; the last token is padding that only the model knows."""

    eos_ids = (60, 61)
    tokenizer = range(SIZE - 1)

    def __init__(self, folder):
        self.location = SimpleNamespace(path=folder)


@pytest.fixture
def opened(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": SIZE}))
    monkeypatch.setattr(module, "open_tokens", lambda *_: FakeTokens(tmp_path))

    def open_reference(kind, top=8, settings=None, **played):
        server = Played(kind, **played)
        transport = httpx.MockTransport(server)
        found = ServerReference(
            "http://127.0.0.1:1/v1/", kind, settings or {}, top=top, transport=transport
        )
        return found, server

    return open_reference


def request(**sampling):
    settings = Sampling(**{"temperature": 1.0, **sampling})
    return Request(KEY, PROMPT, settings, Limits(8), Stops(), seed=1)


@pytest.mark.parametrize("kind", PLAYED)
def test_every_kind_gives_the_same_evidence(opened, kind):
    reference, server = opened(kind)
    found = reference.score(request(), OUTPUT)
    for position, (before, token) in enumerate(zip([9, 11, 2], OUTPUT, strict=True)):
        top = best(before, 8)
        listed = dict(top)
        rest = math.log(1 - sum(math.exp(x) for x in listed.values()))
        wrong = abs(found.log_target[position] - listed.get(token, rest))
        assert wrong <= found.log_doubt[position] + 1e-9
        assert found.target_top_hit[position] == int(token == top[0][0])
        assert found.unlisted[position] == int(token not in listed)
    # One of the three is listed nowhere, and the token that vLLM adds for it does not count.
    assert sum(found.unlisted) > 0
    assert len(server.asked) == (3 if kind == "llamacpp" else 1)
    assert reference.describe() == f"server http://127.0.0.1:1 ({kind}), 8 tokens per position"


@pytest.mark.parametrize("kind", PLAYED)
def test_what_is_not_listed_is_bounded_above_temperature_1(opened, kind):
    """By the number of tokens: all alike they weigh the most, and that is finite."""
    reference, _ = opened(kind)
    assert reference.vocabulary == SIZE
    found = reference.score(request(temperature=1.5), OUTPUT)
    for position, (before, token) in enumerate(zip([9, 11, 2], OUTPUT, strict=True)):
        law = np.exp(logs(before) / 1.5)
        law /= law.sum()
        listed = [i for i, _ in best(before, 8)]
        truth = law[token] if token in listed else 1 - law[listed].sum()
        wrong = abs(found.log_target[position] - math.log(truth))
        assert wrong <= found.log_doubt[position] + 1e-9
        assert found.log_doubt[position] < 5
        assert found.entropy_doubt[position] < 5


def test_a_row_is_at_least_as_long_as_the_tokenizer(opened, tmp_path):
    opened("vllm")
    (tmp_path / "config.json").unlink()
    assert module._rows(FakeTokens(tmp_path)) == SIZE - 1
    assert module._rows(FakeTokens(None)) == SIZE - 1


@pytest.mark.parametrize("kind", PLAYED)
def test_an_unseen_end_is_the_likeliest_of_several(opened, kind):
    reference, _ = opened(kind, top=SIZE)
    found = reference.score(request(), OUTPUT[:2], (60, 61))
    assert len(found) == 3
    wrong = abs(found.log_target[2] - max(logs(2)[60], logs(2)[61]))
    assert wrong <= found.log_doubt[2] + 1e-9
    assert reference.stops().token_ids == (60, 61)


def test_what_is_sent(opened):
    reference, server = opened("vllm")
    reference.score(request(), OUTPUT)
    (body,) = server.asked
    assert body["model"] == "m"
    assert body["prompt"] == [5, 9, 11, 2, 60]
    assert (body["prompt_logprobs"], body["max_tokens"]) == (8, 1)
    reference, server = opened("sglang")
    reference.score(request(), OUTPUT)
    (body,) = server.asked
    assert (body["logprob_start_len"], body["top_logprobs_num"]) == (1, 8)
    reference, server = opened("llamacpp")
    reference.score(request(), OUTPUT)
    assert [body["prompt"] for body in server.asked] == [[5, 9], [5, 9, 11], [5, 9, 11, 2]]
    assert {body["cache_prompt"] for body in server.asked} == {True}
    # Whatever is likely, a letter is drawn.
    assert [body["logit_bias"] for body in server.asked] == [[[33, 1e6]]] * 3


@pytest.mark.parametrize("kind", PLAYED)
def test_another_kind_of_server_is_named(opened, kind):
    reference, _ = opened(kind, change=lambda _: httpx.Response(200, json={"ok": True}))
    with pytest.raises(SpecbenchError) as caught:
        reference.score(request(), OUTPUT)
    assert "--reference-engine" in caught.value.hint


def test_refusals_keep_the_servers_words(opened):
    answer = httpx.Response(400, text="prompt_logprobs of 500 is greater than max_logprobs 20")
    reference, _ = opened("vllm", change=lambda _: answer)
    with pytest.raises(SpecbenchError, match="answered 400: prompt_logprobs of 500") as caught:
        reference.score(request(), OUTPUT)
    assert "--top" in caught.value.hint


def test_rows_of_other_tokens_are_refused(opened):
    def shifted(found):
        found["meta_info"]["input_token_logprobs"][-1][1] = 1
        return httpx.Response(200, json=found)

    reference, _ = opened("sglang", change=lambda found: shifted(found))
    with pytest.raises(SpecbenchError, match="other tokens than it was sent"):
        reference.score(request(), OUTPUT)


def test_a_prompt_that_was_cut_is_refused(opened):
    def cut(found):
        return httpx.Response(200, json={**found, "tokens_evaluated": 1})

    reference, _ = opened("llamacpp", change=cut)
    with pytest.raises(SpecbenchError, match="context is too short"):
        reference.score(request(), OUTPUT)


def test_penalties_cannot_be_judged_by_a_server(opened):
    reference, _ = opened("vllm")
    with pytest.raises(SpecbenchError, match="penalties"):
        reference.score(request(repetition_penalty=1.1), OUTPUT)


def test_the_key_is_sent_and_refused_with_the_variable(opened, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")
    settings = {"server": {"api_key_env": "MY_KEY"}}
    _, server = opened("vllm", settings=settings)
    assert server.headers[0]["authorization"] == "Bearer secret"
    reference, _ = opened("vllm", change=lambda _: httpx.Response(401))
    with pytest.raises(PrerequisiteError, match="refuses the API key") as caught:
        reference.score(request(), OUTPUT)
    assert "secret" not in str(caught.value)


def test_of_several_models_the_runs_own_is_taken(opened):
    named = {"server": {"model": "b"}}
    reference, _ = opened("vllm", settings=named, models=("a", "b"))
    assert reference.model == "b"
    assert opened("vllm", settings=named, models=("a",))[0].model == "a"
    with pytest.raises(UsageError, match="has several models: a, c"):
        opened("vllm", settings=named, models=("a", "c"))


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [("host:8000", "vllm", "is not an address"), ("http://h", "openai", "cannot score tokens")],
)
def test_what_cannot_be_a_reference(url, kind, message):
    with pytest.raises(UsageError, match=message):
        ServerReference(url, kind, {})


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "m"}]}')

        def log_message(self, *words):
            pass

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        talk = Talk(f"http://127.0.0.1:{server.server_port}", server_options({}), None)
        assert talk.models() == [{"id": "m"}]
        thread.join()
        talk.close()


def test_nobody_there(opened):
    def refuse(_):
        raise httpx.ConnectError("refused")

    with pytest.raises(PrerequisiteError, match="no answer from http://h: refused"):
        ServerReference("http://h", "vllm", {}, transport=httpx.MockTransport(refuse))


def test_names_are_those_of_engines():
    assert set(SCORERS) == {"vllm", "sglang", "llamacpp"}
