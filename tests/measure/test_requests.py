"""Requests that are never sent, and seeds (cases F1, F2, F3)."""

from __future__ import annotations

import pytest

from specbench.core.prompt import RenderedPrompt
from specbench.core.request import RequestKey, Sampling
from specbench.core.suite import Prompt
from specbench.engines.scripted import ScriptedEngine
from specbench.errors import UsageError
from specbench.measure.requests import (
    UNKNOWN_CONTEXT,
    Ready,
    Unsent,
    build_request,
    check_prompts,
    context_limit,
    request_seed,
)
from tests.measure.fakes import conditions, prompt

KEY = RequestKey("suite", "a", 0, 0.0, 0)


def build(text, **changes):
    engine = ScriptedEngine({}, {"context": 16})
    asked = Prompt("a", "all", "test", (text,))
    return build_request(engine, conditions(**changes), asked, KEY, Sampling(), ())


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        (0, "skipped: empty prompt"),
        (16, "skipped: no room"),
        (17, "skipped: prompt 17 > context 16"),
    ],
)
def test_prompts_without_room_are_not_sent(length, reason):
    found = build("w " * length)
    assert isinstance(found, Unsent)
    assert (found.reason, found.prompt_tokens, found.failed) == (reason, length, False)


def test_one_token_of_room_is_enough():
    found = build("w " * 15)
    assert isinstance(found, Ready)
    assert found.request.limits.context == 16


def test_the_smaller_context_counts():
    assert context_limit(ScriptedEngine({}, {"context": 16}), conditions(context=8)) == 8
    assert isinstance(build("w " * 9, context=8), Unsent)


def test_seeds_are_stable_and_leave_the_temperature_out():
    assert request_seed(1, KEY) == request_seed(1, RequestKey("suite", "a", 0, 0.7, 0))
    changed = [
        request_seed(2, KEY),
        request_seed(1, RequestKey("other", "a", 0, 0.0, 0)),
        request_seed(1, RequestKey("suite", "b", 0, 0.0, 0)),
        request_seed(1, RequestKey("suite", "a", 1, 0.0, 0)),
        request_seed(1, RequestKey("suite", "a", 0, 0.0, 1)),
    ]
    assert len({request_seed(1, KEY), *changed}) == 6
    assert 0 <= request_seed(1, KEY) < 2**63
    # A file recorded today must be resumable tomorrow: the value itself is part of the format.
    assert request_seed(1, KEY) == 8761957802578535631


class Refuses(ScriptedEngine):
    def render(self, messages):
        if "bad" in messages[-1]["content"]:
            raise UsageError("no system message, please")
        return ScriptedEngine.render(self, messages)


def test_a_refused_prompt_is_an_error_of_the_item():
    asked = Prompt("a", "all", "test", ("bad",))
    found = build_request(Refuses({}), conditions(), asked, KEY, Sampling(), ())
    assert isinstance(found, Unsent)
    assert found.failed
    assert "no system message" in found.reason


def test_a_template_that_refuses_everything_stops_the_run_before_it_begins():
    with pytest.raises(UsageError, match="no system message"):
        check_prompts(Refuses({}), {"suite": [prompt("bad"), prompt("bad2")]})
    assert check_prompts(Refuses({}), {"suite": [prompt("bad"), prompt("good")]}).text


def test_a_request_carries_the_conversation_and_what_is_passed_on():
    asked = Prompt("a", "all", "test", ("one", "two"), system="be brief", passed_on={"tools": [1]})
    key = RequestKey("suite", "a", 1, 0.0, 0)
    found = build_request(ScriptedEngine({}), conditions(), asked, key, Sampling(), ["uno"])
    assert isinstance(found, Ready)
    assert [(m["role"], m["content"]) for m in found.request.messages] == [
        ("system", "be brief"),
        ("user", "one"),
        ("assistant", "uno"),
        ("user", "two"),
    ]
    assert found.request.passed_on == {"tools": [1]}


class Templated(ScriptedEngine):
    """Renders what is passed on, as a template does that knows tools."""

    def render(self, messages, passed_on=None):
        text = f"{(passed_on or {}).get('tools')} {messages[-1]['content']}"
        return ScriptedEngine.render(self, [{"role": "user", "content": text}])


def test_what_is_passed_on_is_part_of_the_rendered_prompt():
    asked = Prompt("a", "all", "test", ("one",), passed_on={"tools": ["search"]})
    engine = Templated({})
    found = build_request(engine, conditions(), asked, KEY, Sampling(), ())
    assert isinstance(found, Ready)
    wanted = engine.render([{"content": "one"}], {"tools": ["search"]})
    assert found.request.token_ids == wanted.token_ids
    assert found.prompt_hash == check_prompts(engine, {"suite": [asked]}).digest == wanted.digest
    bare = engine.render([{"content": "one"}])
    assert bare.digest != wanted.digest


class Untokenised(ScriptedEngine):
    def render(self, messages):
        return RenderedPrompt((), messages[-1]["content"], "digest", "server", tokenised=False)


def test_without_a_tokenizer_only_an_empty_text_is_held_back():
    def built(text):
        asked = Prompt("a", "all", "test", (text,))
        engine = Untokenised({}, {"context": 2})
        return build_request(engine, conditions(), asked, KEY, Sampling(), ())

    found = built("far more words than fit into the context")
    assert isinstance(found, Ready)
    assert (found.request.token_ids, found.prompt_hash) == ((), "digest")
    empty = built("")
    assert isinstance(empty, Unsent)
    assert empty.reason == "skipped: empty prompt"


def test_an_unknown_context_limits_nothing():
    unknown = ScriptedEngine({}, {"context": UNKNOWN_CONTEXT})
    assert context_limit(unknown, conditions()) is None
    assert context_limit(unknown, conditions(context=9)) == 9
    asked = Prompt("a", "all", "test", ("w " * 5000,))
    found = build_request(unknown, conditions(), asked, KEY, Sampling(), ())
    assert isinstance(found, Ready)
    assert found.request.limits.context is None
