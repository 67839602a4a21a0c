"""A .jsonl file without suite.toml."""

from __future__ import annotations

import json

import pytest

from specbench.errors import UsageError
from specbench.suites.loader import load_suite


@pytest.fixture
def bare(tmp_path):
    def write(*rows):
        path = tmp_path / "my.jsonl"
        path.write_text("\n\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        return path

    return write


def test_defaults(bare):
    suite = load_suite(bare({"turns": ["U"]}, {"id": "own", "category": "c", "turns": ["V"]}))
    assert (suite.name, suite.version, suite.licence) == ("my", "local", "unknown")
    # ids count rows, not lines: a blank line changes nothing
    assert [(p.id, p.category) for p in suite.prompts] == [("row-1", "all"), ("own", "c")]
    assert list(suite.categories) == ["all", "c"]


def test_a_prompt_is_one_turn(bare):
    (prompt,) = load_suite(bare({"id": "p", "prompt": "U"})).prompts
    assert (prompt.id, prompt.turns, prompt.system, prompt.recorded) == ("p", ("U",), None, ())


def test_turns_need_no_recorded_answers(bare):
    assert load_suite(bare({"turns": ["U1", "U2", "U3"]})).prompts[0].recorded == ()


def test_openai_messages(bare):
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "U1"},
        {"role": "assistant", "content": "A1"},
        {"role": "user", "content": "U2"},
    ]
    (prompt,) = load_suite(bare({"messages": messages})).prompts
    assert (prompt.system, prompt.turns, prompt.recorded) == ("S", ("U1", "U2"), ("A1",))
    (prompt,) = load_suite(bare({"messages": messages[1:3]})).prompts
    assert (prompt.system, prompt.turns, prompt.recorded) == (None, ("U1",), ("A1",))


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({"messages": []}, "turns: []"),
        ({"messages": [{"role": "assistant", "content": "A"}]}, "'assistant' where 'user' is due"),
        ({"messages": 2 * [{"role": "user", "content": "U"}]}, "'user' where 'assistant' is due"),
        ({"messages": [{"role": "bot", "content": "U"}]}, "messages.0.role: 'bot'"),
        ({"messages": [{"role": "user", "content": [1]}]}, "messages.0.content: [1]"),
        ({"messages": [], "turns": ["U"]}, "'turns' and 'messages' in one row"),
        ({"prompt": ["U", "V"]}, "prompt: ['U', 'V']; write one text"),
        ({"prompt": "U", "turns": ["U"]}, "'turns' and 'prompt' in one row"),
        ({"turns": ["U"], "temperature": 0}, "temperature: unknown key"),
    ],
)
def test_wrong_rows(bare, row, part):
    with pytest.raises(UsageError) as caught:
        load_suite(bare(row))
    assert "line 1: " in str(caught.value)
    assert part in str(caught.value)


def test_g3_sharegpt(bare):
    def said(*turns):
        return [{"from": speaker, "value": value} for speaker, value in turns]

    path = bare(
        {"id": "QWJhYvA_0", "conversations": said(("human", "U"), ("gpt", "A"))},
        {"id": "none"},
        {"conversations": []},
        {"conversations": said(("human", "U"))},
        [1, "x"],
        {"conversations": said(("gpt", "A0"), ("human", "U1"), ("gpt", "A1"))},
    )
    suite = load_suite(path, strict=False, max_bad=4)
    assert [(p.id, p.turns, p.recorded) for p in suite.prompts] == [
        ("row-1", ("U",), ("A",)),
        ("row-6", ("U1",), ("A1",)),
    ]
    # rows are on every second line
    for line, reason, skipped in zip(
        (3, 5, 7, 9),
        ("turns: missing", "no human turn with an answer", "with an answer", "not an object"),
        suite.skipped,
        strict=True,
    ):
        assert f"line {line}: " in skipped
        assert reason in skipped


@pytest.mark.parametrize(
    "turns", ["U", [1], [{"from": "bing", "value": "A"}], [{"from": "human", "value": None}]]
)
def test_sharegpt_turns_that_are_none(bare, turns):
    with pytest.raises(UsageError, match="conversations"):
        load_suite(bare({"conversations": turns}))
