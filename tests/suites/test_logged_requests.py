"""Rows that were recorded from traffic: requests of clients, batch files and traces with tools."""

from __future__ import annotations

import json

import pytest

from specbench.errors import UsageError
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"t": 1}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
SYSTEM = {"role": "system", "content": "S"}
U1, U2 = {"role": "user", "content": "U1"}, {"role": "user", "content": "U2"}
A1 = {"role": "assistant", "content": "A1"}


@pytest.fixture
def load(tmp_path):
    def write(*rows, **options):
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        return load_suite(path, **options)

    return write


@pytest.mark.parametrize(
    "wrap",
    [
        lambda body: {"custom_id": "Q 7", "method": "POST", "url": "/v1", "body": body},
        lambda body: {"request": body, "response": {"choices": []}},
        lambda body: {"request": {"headers": {}, "body": body}},
        lambda body: {"model": "m", **body},
    ],
    ids=["batch file", "request", "request with body", "the body itself"],
)
def test_a_logged_request_is_put_again_as_it_was(load, wrap):
    body = {
        "messages": [SYSTEM, U1, A1, U2],
        "tools": TOOLS,
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "chat_template_kwargs": {"enable_thinking": False},
        "temperature": 0.3,
        "max_tokens": 9,
    }
    (prompt,) = load(wrap(body)).prompts
    assert prompt.id == "row-1"
    # one request, whose history is that of the log and not that of an arm
    assert prompt.turns == ("U2",)
    assert messages_for_turn(prompt, 0, ()) == [SYSTEM, U1, A1, U2]
    assert prompt.passed_on == {
        "tools": TOOLS,
        "tool_choice": "auto",
        "response_format": {"type": "json_object"},
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_a_simple_request_needs_no_context(load):
    (prompt,) = load({"model": "m", "messages": [SYSTEM, U1]}).prompts
    assert (prompt.system, prompt.turns, prompt.context) == ("S", ("U1",), ())
    (prompt,) = load({"body": {"prompt": "U1", "seed": 3}}).prompts
    assert (prompt.turns, prompt.passed_on) == (("U1",), {})


def test_fields_of_a_client_library_count_as_fields_of_the_request(load):
    kwargs = {"enable_thinking": True}
    row = {"body": {"messages": [U1], "extra_body": {"chat_template_kwargs": kwargs}}}
    assert load(row).prompts[0].passed_on == {"chat_template_kwargs": kwargs}


def test_a_trace_with_tools_asks_for_the_last_answer(load):
    answer = {"role": "assistant", "content": "It rains."}
    (prompt,) = load({"messages": [SYSTEM, U1, CALL, RESULT, answer], "tools": TOOLS}).prompts
    assert (prompt.turns, prompt.recorded) == (("U1",), ("It rains.",))
    assert messages_for_turn(prompt, 0, ()) == [SYSTEM, U1, CALL, RESULT]
    assert prompt.passed_on == {"tools": TOOLS}
    # one that ends with the tool's result is the same request without a recorded answer
    (open_end,) = load({"messages": [SYSTEM, U1, CALL, RESULT], "tools": TOOLS}).prompts
    assert (open_end.context, open_end.recorded) == (prompt.context, ())


def test_a_trace_that_ends_with_a_call_has_no_recorded_text(load):
    (prompt,) = load({"messages": [U1, CALL], "tools": TOOLS}).prompts
    assert (prompt.turns, prompt.context, prompt.recorded) == (("U1",), (), ())


def test_other_roles_stay_as_they_are(load):
    developer = {"role": "developer", "content": "D"}
    (prompt,) = load({"messages": [developer, U1]}).prompts
    assert messages_for_turn(prompt, 0, ()) == [developer, U1]


def test_empty_fields_of_logs_are_no_fields(load):
    logged = {**A1, "tool_calls": None, "refusal": None, "annotations": []}
    (prompt,) = load({"messages": [U1, logged, U2]}).prompts
    assert (prompt.turns, prompt.recorded, prompt.context) == (("U1", "U2"), ("A1",), ())


def test_text_in_parts_is_one_text(load):
    parts = [{"type": "text", "text": "U"}, {"type": "text", "text": "1"}]
    (prompt,) = load({"messages": [{"role": "user", "content": parts}]}).prompts
    assert prompt.turns == ("U1",)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "a part of type 'image_url' is no text, and only text is measured",
        ),
        ({"body": {"messages": [U1, A1]}}, "a request ends with a user or tool message"),
        ({"body": {"messages": [SYSTEM]}}, "no user message to answer"),
        ({"body": {"model": "m"}}, "without messages and prompt"),
        ({"body": "{}"}, "body: '{}' is not an object"),
        ({"body": {"messages": [U1], "functions": TOOLS}}, "functions: the old form of tools"),
        ({"messages": [CALL], "tools": TOOLS}, "no user message to answer"),
        ({"messages": [{"role": "user"}]}, "a message of role 'user' without content"),
        ({"messages": [U1], "tools": "weather"}, "tools: 'weather'"),
        ({"messages": [U1], "tools": []}, "tools: []"),
    ],
)
def test_what_cannot_be_put_again_says_why(load, row, part):
    with pytest.raises(UsageError) as caught:
        load(row)
    assert part in str(caught.value)
    suite = load(row, {"prompt": "U"}, strict=False, max_bad=1)
    assert len(suite.prompts) == 1
    assert part in suite.skipped[0]


def test_request_fields_count_in_the_digest(load):
    one = load({"prompt": "U", "tools": TOOLS}).digest
    assert one != load({"prompt": "U"}).digest
    assert one == load({"tools": TOOLS, "prompt": "U"}).digest


def test_a_context_in_a_suite_folder(folder):
    def suite(**more):
        row = {"id": "a", "category": "x", "turns": ["U1"], "context": [U1, CALL, RESULT], **more}
        return load_suite(folder([row]))

    assert messages_for_turn(suite().prompts[0], 0, ()) == [U1, CALL, RESULT]
    for more, part in [
        ({"turns": ["U2"]}, "the first turn is not the last user message"),
        ({"system": "S"}, "a system message beside a context"),
        ({"context": [U1, CALL]}, "ends with a message of role 'assistant'"),
    ]:
        with pytest.raises(UsageError, match=part):
            suite(**more)


def test_turns_may_follow_a_context(folder):
    row = {"id": "a", "category": "x", "turns": ["U1", "U2"], "context": [U1, CALL, RESULT]}
    (prompt,) = load_suite(folder([row])).prompts
    assert messages_for_turn(prompt, 1, ["A1"]) == [U1, CALL, RESULT, A1, U2]
