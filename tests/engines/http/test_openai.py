"""The standard's requests and answers."""

from __future__ import annotations

import pytest

from specbench.core.trace import Finish
from specbench.engines.http.dialects.openai import DIALECT
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError
from tests.engines.http.attached import request

SERVED = Served("http://h", "m")


def test_the_body_of_a_chat():
    asked = request(limit=9, seed=5, temperature=0.5, top_p=0.9, strings=("##",))
    path, body = DIALECT.post(asked, SERVED, Wish("chat"))
    assert path == "/v1/chat/completions"
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "cat dog"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "seed": 5,
        "n": 1,
        "stop": ["##"],
    }


def test_text_goes_to_completions_and_almost_greedy_is_greedy():
    path, body = DIALECT.post(request(temperature=1e-6), SERVED, Wish("text"))
    assert (path, body["prompt"], body["temperature"]) == ("/v1/completions", "cat dog", 0.0)
    assert "messages" not in body


@pytest.mark.parametrize("setting", [{"top_k": 5}, {"min_p": 0.1}, {"repetition_penalty": 1.1}])
def test_settings_without_a_field_are_refused(setting):
    [name] = setting
    with pytest.raises(UsageError, match=name):
        DIALECT.post(request(**setting), SERVED, Wish("chat"))


def delta(finish=None, **fields):
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("payload", "piece"),
    [
        (delta(role="assistant", content=""), Piece()),
        (delta(content="a"), Piece(text="a")),
        (delta(content=None, reasoning_content="r"), Piece(reasoning="r")),
        (delta(reasoning="r"), Piece(reasoning="r")),
        (delta("stop"), Piece(finish=Finish.STOP)),
        (delta("length", content="z"), Piece(text="z", finish=Finish.LENGTH)),
        (delta("tool_calls"), Piece(finish=Finish.EOS)),
        (delta("content_filter"), Piece(error="finish reason 'content_filter'")),
        (
            delta(tool_calls=[{"function": {"name": "f", "arguments": '{"a'}}]),
            Piece(text='{"a', reasoning="f"),
        ),
        ({"choices": [{"text": "t", "finish_reason": None}]}, Piece(text="t")),
        ({"error": {"message": "no", "type": "x"}}, Piece(error="no")),
        ({"error": "no"}, Piece(error="no")),
        ({"object": "error", "message": "no"}, Piece(error="no")),
        (
            {
                "choices": [],
                "usage": {
                    "completion_tokens": 2,
                    "prompt_tokens": 3,
                    "prompt_tokens_details": {"cached_tokens": 1},
                },
            },
            Piece(completion_tokens=2, prompt_tokens=3, cached_tokens=1),
        ),
        (
            {"choices": [{"message": {"content": "w"}, "finish_reason": "stop"}], "usage": None},
            Piece(text="w", finish=Finish.STOP),
        ),
    ],
)
def test_what_events_say(payload, piece):
    assert DIALECT.piece(payload) == piece


def test_an_event_of_something_else():
    with pytest.raises(ValueError, match="without choices"):
        DIALECT.piece({"content": "a"})
