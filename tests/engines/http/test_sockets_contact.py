"""Bad input at the first contact, and what servers do not honour, found out by trying."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess

import pytest

from specbench.core.trace import Counted, Finish
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
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
from tests.engines.http.attached import ARM, attached, decode, request

ANSWER = stream((0.0, chat("a", finish="stop")), (0.0, usage_only(1, 5)), (0.0, DONE))
KEY = "SPECBENCH_TEST_KEY"


class Nowhere:
    """Stands for a server at an address that has none."""

    def __init__(self, url):
        self.url = url


def first_words(server, **options):
    """Attach and leave again."""
    with attached(server, **options):
        pass


def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nothing_listens():
    url = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(PrerequisiteError, match="refused") as caught:
        first_words(Nowhere(url))
    assert url in caught.value.message
    assert caught.value.hint


def test_the_address_may_end_in_v1():
    with FakeServer(ANSWER) as server:
        (trace,) = decode(Nowhere(server.url + "/v1/"), [request()])
        assert server.received[0].path == "/v1/chat/completions"
    assert trace.ok


def test_a_path_that_is_no_server_of_this_kind():
    with FakeServer(ANSWER, pages={"/v1/models": refused(404, "Not Found")}) as server:
        with pytest.raises(SpecbenchError, match="404"):
            first_words(server)
        (trace,) = decode(server, [request()], model="named")
        assert server.requests[0]["model"] == "named"
    assert trace.ok


def test_a_wrong_model_name_is_met_with_those_that_exist():
    with (
        FakeServer(ANSWER, models=["llama-8b", "llama-70b"]) as server,
        pytest.raises(UsageError, match="lama-8b") as caught,
    ):
        first_words(server, model="lama-8b")
    assert "llama-8b" in str(caught.value)


def test_one_of_several_models_must_be_named():
    with FakeServer(ANSWER, models=["a", "b"]) as server:
        with pytest.raises(UsageError, match="a, b"):
            first_words(server)
        decode(server, [request()], model="b")
        assert server.requests[0]["model"] == "b"


def test_a_key_comes_from_the_environment_and_goes_nowhere_else(monkeypatch):
    monkeypatch.setenv(KEY, "sk-secret-1")
    with FakeServer(ANSWER, api_key="sk-secret-1") as server:
        with attached(server, api_key_env=KEY) as engine:
            traces = list(engine.run(ARM, [request()], 1))
            facts = engine.describe()
        assert server.received[0].headers["authorization"] == "Bearer sk-secret-1"
    assert traces[0].ok
    assert "sk-secret" not in json.dumps(facts, default=str) + repr(traces)


def test_a_refused_key_names_its_variable_and_not_itself(monkeypatch):
    monkeypatch.setenv(KEY, "sk-wrong-1")
    with (
        FakeServer(ANSWER, api_key="sk-secret-1") as server,
        pytest.raises(PrerequisiteError, match=KEY) as caught,
    ):
        first_words(server, api_key_env=KEY)
    assert "sk-wrong" not in str(caught.value)


def test_a_key_that_is_named_and_not_set(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    with FakeServer(ANSWER) as server, pytest.raises(PrerequisiteError, match=KEY):
        first_words(server, api_key_env=KEY)


def test_a_tokenizer_that_is_not_there(tmp_path):
    with (
        FakeServer(ANSWER) as server,
        pytest.raises(PrerequisiteError, match="tokenizer") as caught,
    ):
        first_words(server, tokenizer=str(tmp_path / "none"))
    assert "--tokenizer" in caught.value.hint


def test_https_to_a_plain_server():
    with FakeServer(ANSWER) as server, pytest.raises(PrerequisiteError) as caught:
        first_words(Nowhere(server.url.replace("http://", "https://")))
    assert "http://" in caught.value.hint


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1: (certificate file, server-side context)."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def test_certificates(certificate):
    """An unknown one is refused; named or waved through, the server can be used."""
    file, context = certificate
    with FakeServer(ANSWER, tls=context) as server:
        with pytest.raises(PrerequisiteError, match="certificate") as caught:
            first_words(server)
        assert "ca_file" in caught.value.hint
        for options in ({"ca_file": file}, {"verify_tls": False}):
            (trace,) = decode(server, [request()], **options)
            assert trace.ok


def test_a_server_that_refuses_stream_options_is_measured_without_usage():
    habits = Habits(refuses=frozenset({"stream_options"}))
    with FakeServer(Speaker(TableModel(end=-30.0), habits)) as server:
        (trace,) = decode(server, [request()])
    assert (trace.finish, trace.counted) == (Finish.LENGTH, Counted.ESTIMATED)
    assert "stream_options" in trace.effective


def test_a_refused_field_is_named():
    with FakeServer(Speaker(habits=Habits(refuses=frozenset({"seed"})))) as server:
        (trace,) = decode(server, [request()])
    assert trace.finish == Finish.ERROR
    assert "seed" in trace.error


def probed(habits):
    """What the probes say of an endless speaker with these habits."""
    speaker = Speaker(TableModel(end=-30.0), habits)
    with FakeServer(speaker) as server, attached(server, probes=True) as engine:
        found = engine.describe()["probes"][ARM]
    return {name: found[name] for name in ("temperature", "seed", "greedy")}


@pytest.mark.parametrize(
    ("habits", "found"),
    [
        (Habits(), ("honoured", "honoured", "repeatable")),
        (Habits(ignores=frozenset({"seed"})), ("honoured", "ignored", "repeatable")),
        (Habits(temperature=0.0), ("ignored", "not tested", "repeatable")),
        (Habits(temperature=1.0), ("honoured", "honoured", "varies")),
    ],
    ids=["honest", "seed ignored", "greedy sold as sampling", "sampling sold as greedy"],
)
def test_ignored_settings_are_found_out(habits, found):
    assert probed(habits) == dict(zip(("temperature", "seed", "greedy"), found, strict=True))
