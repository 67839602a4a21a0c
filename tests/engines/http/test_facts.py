"""What a run on servers records, and how long a prompt may be."""

from __future__ import annotations

import json

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.http.dialects.llamacpp import DIALECT as LLAMACPP
from specbench.engines.http.dialects.openai import DIALECT as OPENAI
from specbench.engines.http.dialects.vllm import DIALECT as VLLM
from specbench.engines.http.engine import HttpEngine
from specbench.engines.http.facts import UNLIMITED
from tests.engines.fake_server import FakeServer, Speaker, whole
from tests.engines.http.attached import attached

PROPS = whole({"default_generation_settings": {"n_ctx": 64}, "build_info": "b9"})
META = whole({"data": [{"id": "m", "meta": {"n_ctx": 32, "n_ctx_train": 8192}}]})


def test_what_is_known_of_an_attached_server(monkeypatch):
    monkeypatch.setenv("SPECBENCH_API_KEY", "very-secret")
    with (
        FakeServer(Speaker(), context=128, api_key="very-secret") as server,
        attached(server) as engine,
    ):
        described = engine.describe()
        [facts] = described["servers"].values()
        assert (facts["url"], facts["model"], facts["context"]) == (server.url, "fake", 128)
        assert described["target"]["weight_hash"] == described["target"]["revision"] == "unknown"
        assert described["target"]["served_as"] == ["fake"]
        assert (described["route"], described["template_hash"]) == ("chat", "server")
        assert "very-secret" not in json.dumps(described)
        assert engine.device == "server"
        assert engine.memory("plain").target_weights is None


@pytest.mark.parametrize(
    ("dialect", "context", "pages", "limit"),
    [
        (OPENAI, 128, {}, 128),
        (OPENAI, None, {}, UNLIMITED),
        (OPENAI, None, {"/v1/models": META}, 32),
        (LLAMACPP, None, {"/v1/models": META, "/props": PROPS}, 64),
    ],
    ids=["vllm's list", "nothing", "llama.cpp's list", "llama.cpp's slots"],
)
def test_the_context_that_servers_tell(dialect, context, pages, limit):
    with (
        FakeServer(Speaker(), context=context, pages=pages) as server,
        attached(server, dialect) as engine,
    ):
        assert engine.context_limit == limit


def test_the_smallest_context_of_all_servers_holds():
    with FakeServer(Speaker(), context=64) as small, FakeServer(Speaker(), context=128) as large:
        arms = [
            ArmSpec("plain", server={"url": large.url}),
            ArmSpec("draft", "unknown", 0, "unknown", server={"url": small.url}),
        ]
        engine = HttpEngine({"server": {"probes": False}}, arms, OPENAI)
        assert engine.context_limit == 64
        engine.close()


@pytest.mark.parametrize(("dialect", "version"), [(VLLM, "0.9"), (LLAMACPP, "b9")])
def test_versions(dialect, version):
    pages = {"/version": whole({"version": "0.9"}), "/props": PROPS}
    with FakeServer(Speaker(), pages=pages) as server, attached(server, dialect) as engine:
        assert engine.describe()["servers"]["plain"]["version"] == version


def test_an_engine_can_be_closed_twice():
    with FakeServer(Speaker()) as server, attached(server) as engine:
        engine.close()
