"""llama.cpp's dialect on events as its server sent them; steps worked out by hand."""

from __future__ import annotations

import json

import pytest

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Cut, Finish
from specbench.engines.http.dialects.llamacpp import DIALECT
from specbench.engines.http.protocol import Served, Wish
from specbench.engines.telemetry.marks import steps_from_marks
from specbench.errors import UsageError

SERVED = Served("http://127.0.0.1:1", model="m", context=2048)


GREEDY = Sampling()
SHORT = Limits(16)


def request(sampling: Sampling = GREEDY, limits: Limits = SHORT, seed: int = 5) -> Request:
    key = RequestKey("code", "a", 0, sampling.temperature, 0)
    messages = ({"role": "user", "content": "hi"},)
    return Request(key, (7, 8, 9), sampling, limits, Stops((2,), ("\n\n",)), seed, messages)


def event(n: int, ms: float, tokens: list[int], drafted: int = 0, accepted: int = 0, **more):
    timings = {"cache_n": 0, "prompt_n": 15, "predicted_n": n, "predicted_ms": ms}
    if drafted:
        timings |= {"draft_n": drafted, "draft_n_accepted": accepted}
    return {
        "index": 0,
        "content": "x" if tokens else "",
        "tokens": tokens,
        "stop": False,
        "tokens_predicted": n,
        "tokens_evaluated": 15,
        "timings": timings,
        **more,
    }


def test_a_stream_that_a_stop_string_ends_inside_a_draft():
    events = [
        event(1, 0.001, [48010]),
        event(2, 104.15, [42], 5, 5),
        event(3, 104.15, [253], 5, 5),
        event(4, 104.15, [278], 5, 5),
        event(5, 104.15, [265], 5, 5, content=""),
        event(6, 104.15, [287], 5, 5),
        event(6, 104.15, [], 5, 5, stop=True, stop_type="word", stopping_word="c d"),
    ]
    pieces = [DIALECT.piece(json.loads(json.dumps(one))) for one in events]
    last = pieces[-1]
    assert (last.finish, last.done, last.completion_tokens) == (Finish.STOP, True, 6)
    assert [piece.token_ids for piece in pieces[:2]] == [(48010,), (42,)]
    assert (last.prompt_tokens, last.cached_tokens) == (15, 0)
    assert last.tally is not None
    assert (last.tally.verified, last.tally.accepted, last.tally.committed) == (5, 5, 5)
    steps = steps_from_marks([piece.mark for piece in pieces], Finish.STOP)
    assert steps is not None
    assert (steps.verified, steps.accepted, steps.committed) == ([5], [5], [5])
    assert steps.cut == [Cut.STOP]


def test_ends_have_their_names():
    for name, finish in (("eos", Finish.EOS), ("limit", Finish.LENGTH), ("none", None)):
        piece = DIALECT.piece(event(3, 1.0, [], stop=True, stop_type=name))
        assert piece.finish is finish


def test_settings_come_back_without_the_rounding_of_float32():
    settings = {"temperature": 0.800000011920929, "top_k": 0, "top_p": 0.949999988079071}
    settings |= {"min_p": 0.0, "repeat_penalty": 1.0, "n_predict": 16, "seed": 4294967295}
    piece = DIALECT.piece(event(3, 1.0, [], stop=True, generation_settings=settings))
    assert piece.effective == {
        "temperature": 0.8,
        "top_k": 0,
        "top_p": 0.95,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "max_new_tokens": 16,
        "seed": "random",
    }


def test_the_chat_route_has_marks_too():
    timings = {"cache_n": 3, "predicted_n": 4, "predicted_ms": 95.599}
    timings |= {"draft_n": 5, "draft_n_accepted": 3}
    usage = {"completion_tokens": 4, "prompt_tokens": 36}
    piece = DIALECT.piece({"choices": [], "usage": usage, "timings": timings})
    assert piece.mark is not None
    assert (piece.mark.tokens, piece.mark.verified, piece.mark.accepted) == (4, 5, 3)
    assert (piece.prompt_tokens, piece.cached_tokens) == (36, 3)
    role = {"choices": [{"delta": {"role": "assistant", "content": None}, "finish_reason": None}]}
    assert DIALECT.piece(role).mark is None


def test_every_sampling_field_is_sent_in_our_order():
    path, body = DIALECT.post(request(Sampling(0.7, 40, 0.9, 0.05)), SERVED, Wish("ids", False))
    assert path == "/completion"
    assert body["prompt"] == [7, 8, 9]
    assert body["samplers"] == ["penalties", "temperature", "top_k", "top_p", "min_p"]
    sent = [body[name] for name in ("temperature", "top_k", "top_p", "min_p", "n_predict")]
    assert sent == [0.7, 40, 0.9, 0.05, 16]
    assert (body["cache_prompt"], body["stream"], body["stop"]) == (False, True, ["\n\n"])
    assert (body["timings_per_token"], body["return_tokens"]) == (True, True)
    chat, told = DIALECT.post(request(), SERVED, Wish("chat"))
    assert chat == "/v1/chat/completions"
    assert (told["top_k"], told["min_p"], told["max_tokens"]) == (0, 0.0, 16)
    assert "cache_prompt" not in told


def test_the_repetition_penalty_reaches_the_whole_context():
    _, body = DIALECT.post(request(Sampling(repetition_penalty=1.1)), SERVED, Wish("ids"))
    assert (body["repeat_penalty"], body["repeat_last_n"]) == (1.1, 2048)
    _, body = DIALECT.post(request(), SERVED, Wish("ids"))
    assert body["repeat_last_n"] == 0


def test_seeds_fit_into_32_bits_and_never_mean_random():
    seeds = [0, 5, 2**32 - 2, 2**32 - 1, 2**63 - 1]
    sent = [DIALECT.post(request(seed=seed), SERVED, Wish("ids"))[1]["seed"] for seed in seeds]
    assert sent[:3] == seeds[:3]
    assert all(isinstance(seed, int) and 0 <= seed < 2**32 - 1 for seed in sent)


@pytest.mark.parametrize(
    "asked",
    [
        request(Sampling(presence_penalty=0.5)),
        request(Sampling(frequency_penalty=0.5)),
        request(limits=Limits(16, min_new_tokens=4)),
    ],
)
def test_what_has_no_equivalent_is_refused(asked):
    with pytest.raises(UsageError):
        DIALECT.post(asked, SERVED, Wish("ids"))


def test_equal_lengths_are_possible():
    _, body = DIALECT.post(request(limits=Limits(16, 16)), SERVED, Wish("ids"))
    assert body["ignore_eos"] is True


def test_errors_and_strangers():
    error = {"error": {"code": 400, "message": "context is full", "type": "x"}}
    assert DIALECT.piece(error).error == "context is full"
    with pytest.raises(ValueError, match="no event of llama"):
        DIALECT.piece({"meta_info": {}})
