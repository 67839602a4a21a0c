"""Fields beside the prompt: tools of a suite, and what the experiment adds to every request."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.http.dialects.llamacpp import DIALECT as LLAMACPP
from specbench.engines.http.dialects.openai import DIALECT as OPENAI
from specbench.engines.http.dialects.sglang import DIALECT as SGLANG
from specbench.engines.http.dialects.trtllm import DIALECT as TRTLLM
from specbench.engines.http.dialects.vllm import DIALECT as VLLM
from specbench.engines.http.engine import HttpEngine
from specbench.engines.http.extra_fields import extended, refuse_overrides, with_template_options
from specbench.engines.http.tokens import without_tokens
from specbench.errors import UsageError
from specbench.measure.plan import plan_units
from specbench.measure.runner import Runner
from tests.engines.fake_server import DONE, FakeServer, Speaker, chat, stream, usage_only
from tests.engines.fake_server.checkpoint import write_tokenizer
from tests.engines.http.attached import ARM, attached
from tests.measure.fakes import Memory, conditions, prompt

ANSWER = stream((0.0, chat("a", finish="stop")), (0.0, usage_only(1, 5)), (0.0, DONE))
TOOLS = [{"type": "function", "function": {"name": "f"}}]
OPTIONS = "chat_template_kwargs"
THINKS = "{% for m in messages %} {{ m['content'] }}{% endfor %}{% if think %} dog{% endif %}"
ALL = [OPENAI, VLLM, SGLANG, TRTLLM, LLAMACPP]


def measured(row, **options):
    """A row of a suite through the runner, the engine and sockets: the body, and the trace."""
    settings, sink = conditions(), Memory()
    with FakeServer(ANSWER) as server:
        with attached(server, **options) as engine:
            Runner(engine, settings, sink, {}).run(plan_units({"suite": [row]}, settings, [ARM]))
        [body], [trace] = server.requests, sink.traces
    return body, trace


def test_a_row_with_tools_goes_to_the_server_and_into_the_hash_of_its_prompt():
    body, trace = measured(replace(prompt("a"), passed_on={"tools": TOOLS}))
    assert trace.ok
    assert body["tools"] == TOOLS
    said = (
        '{"messages":[{"content":"a turn0","role":"user"}],'
        '"tools":[{"function":{"name":"f"},"type":"function"}]}'
    )
    assert trace.prompt_hash == hashlib.sha256(said.encode()).hexdigest()


def test_prompts_that_differ_in_their_tools_alone_are_other_prompts():
    said = ({"role": "user", "content": "a"},)
    bare, tools, none = (
        without_tokens(said, None, told).digest for told in (None, {"tools": TOOLS}, {})
    )
    assert bare == none != tools


def test_options_of_the_template_reach_the_server_and_those_of_the_prompt_win():
    row = replace(prompt("a"), passed_on={OPTIONS: {"think": True}})
    extra = {OPTIONS: {"think": False, "effort": "low"}, "user": "me"}
    body, _ = measured(row, extra_body=extra)
    assert body[OPTIONS] == {"think": True, "effort": "low"}
    assert body["user"] == "me"


@pytest.mark.parametrize("route", ["ids", "text"])
def test_options_of_the_template_count_where_prompts_are_rendered_here(tmp_path, route):
    """Ids of the table: the server never sees the option, so the prompt has to hold it."""
    write_tokenizer(tmp_path, THINKS)
    options = {"route": route, "tokenizer": str(tmp_path)}
    sent = []
    said = ({"role": "user", "content": "cat"},)
    for told in ({}, {OPTIONS: {"think": True}}):
        with (
            FakeServer(Speaker()) as server,
            attached(server, VLLM, extra_body=told, **options) as engine,
        ):
            rendered = engine.render(said)
            sent.append((rendered.text, len(rendered.token_ids)))
    assert sent == [(" cat", 1), (" cat dog", 2)]
    with FakeServer(Speaker()) as server, attached(server, VLLM, **options) as engine:
        assert engine.render(said, {OPTIONS: {"think": True}}).text == " cat dog"


def test_fields_that_are_added():
    extra = {OPTIONS: {"a": 1, "b": 1}, "user": "me"}
    assert with_template_options({}, {}) == {}
    assert with_template_options({}, extra) == {OPTIONS: {"a": 1, "b": 1}}
    assert with_template_options({OPTIONS: {"b": 2}}, extra) == {OPTIONS: {"a": 1, "b": 2}}
    assert extended({"tools": [1]}, extra, "chat") == {**extra, "tools": [1]}
    # What renders here has used them up.
    assert extended({}, extra, "ids") == {"user": "me"}


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize(
    "name", ["temperature", "top_k", "seed", "stream", "stop", "prompt", "model", "max_tokens"]
)
def test_what_is_measured_cannot_be_overwritten(dialect, name):
    with pytest.raises(UsageError, match=f"extra_body sets {name},") as caught:
        refuse_overrides(dialect, dialect.routes, {name: 1, "user": "me"})
    assert "[workload]" in caught.value.hint


@pytest.mark.parametrize(
    ("dialect", "name"),
    [(VLLM, "cache_salt"), (LLAMACPP, "samplers"), (SGLANG, "sampling_params"), (TRTLLM, "n")],
)
def test_fields_of_one_dialect_cannot_be_overwritten_there(dialect, name):
    with pytest.raises(UsageError, match=name):
        refuse_overrides(dialect, dialect.routes, {name: 1})
    refuse_overrides(dialect, dialect.routes, {OPTIONS: {"think": False}, "user": "me"})


def test_an_engine_refuses_before_it_asks_a_server():
    arm = ArmSpec(ARM, server={"url": "http://127.0.0.1:1"})
    settings = {"server": {"extra_body": {"temperature": 0.5}}}
    with pytest.raises(UsageError, match="temperature"):
        HttpEngine(settings, [arm], OPENAI)
