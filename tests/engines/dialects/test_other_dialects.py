"""vLLM, SGLang and TensorRT-LLM: documented answers, totals worked out by hand."""

from __future__ import annotations

import pytest

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Cut, Finish
from specbench.engines.http.dialects import sglang, trtllm, vllm
from specbench.engines.http.dialects.totals import listed_steps
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

SERVED = Served("http://127.0.0.1:1", model="m")


GREEDY = Sampling()


def request(sampling: Sampling = GREEDY) -> Request:
    key = RequestKey("code", "a", 0, sampling.temperature, 0)
    messages = ({"role": "user", "content": "hi"},)
    return Request(key, (7, 8, 9), sampling, Limits(16, 2), Stops((2,), ("END",)), 5, messages)


def choice(**fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "text": "", "finish_reason": None, **fields}]}


SUMMARY = {
    "mean_acceptance_length": 1.2325581395348837,
    "draft_acceptance_rate": 0.07751937984496124,
    "acceptance_histogram": [39, 1, 0, 3],
    "num_spec_steps": 43,
    "num_accepted_draft_tokens": 10,
    "num_draft_tokens": 129,
    "num_spec_tokens": 3,
}
"""The example of vLLM's documentation: 39 * 0 + 1 * 1 + 3 * 3 = 10 accepted in 43 steps."""


def vllm_last(told: dict[str, object], tokens: int):
    usage = {"prompt_tokens": 3, "completion_tokens": tokens}
    return vllm.DIALECT.piece(
        {"choices": [], "usage": usage, "metrics": {"speculative_decoding": told}}
    )


def test_vllm_totals_of_a_request():
    tally = vllm_last(SUMMARY, 1 + 53 + 7).tally
    assert tally is not None
    assert (tally.drafted_steps, tally.verified, tally.accepted) == (43, 129, 10)
    assert tally.accepted_at == [4, 3, 3]
    # 60 tokens behind the prefill's: 53 from steps with a draft, so 7 more steps had none.
    assert (tally.committed, tally.steps) == (60, 50)


def test_vllm_lists_every_step():
    detail = SUMMARY | {"per_step_accepted": [3, 1, 2, 2], "per_step_drafted": [3, 3, 3, 3]}
    steps = vllm_last(detail, 13).steps
    assert steps is not None
    assert (steps.accepted, steps.committed) == ([3, 1, 2, 2], [4, 2, 3, 3])
    assert not any(steps.cut)


def test_listed_steps_that_an_end_cut_or_that_leave_some_out():
    cut = listed_steps([3, 2], [3, 3], 1 + 4 + 1)
    assert cut is not None
    assert (cut.committed, cut.judged, cut.accepted) == ([4, 1], [3, 1], [3, 1])
    assert cut.cut == [Cut.NONE, Cut.LENGTH]
    assert listed_steps([3, 2], [3, 3], 1 + 7 + 1) is None
    assert listed_steps([3, 2], [3], 8) is None
    assert listed_steps([4], [3], 6) is None
    assert listed_steps([3, 2], [3, 3], 1 + 4) is None
    assert listed_steps([0], [3], None) is None


def test_vllm_says_what_stopped_the_output():
    piece = vllm.DIALECT.piece
    assert piece(choice(finish_reason="stop", stop_reason="END")).finish is Finish.STOP
    assert piece(choice(finish_reason="stop", stop_reason=2)).finish is Finish.EOS
    assert piece(choice(finish_reason="stop")).finish is Finish.EOS
    assert piece(choice(finish_reason="length")).finish is Finish.LENGTH
    first = piece(choice(text="a", token_ids=[4, 5], prompt_token_ids=[7, 8, 9]))
    assert (first.token_ids, first.prompt_ids) == ((4, 5), (7, 8, 9))
    assert first.tally is None


def test_vllm_gets_every_sampling_field():
    asked = request(Sampling(0.7, 0, 0.9, repetition_penalty=1.1))
    path, body = vllm.DIALECT.post(asked, SERVED, Wish("ids"))
    assert path == "/v1/completions"
    wanted = {"prompt": [7, 8, 9], "top_k": -1, "top_p": 0.9, "min_p": 0.0, "seed": 5}
    wanted |= {"repetition_penalty": 1.1, "min_tokens": 2, "stop_token_ids": [2], "stop": ["END"]}
    wanted |= {"return_token_ids": True, "max_tokens": 16, "temperature": 0.7}
    assert wanted.items() <= body.items()
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "cache_salt" not in body
    assert "cache_salt" in vllm.DIALECT.post(asked, SERVED, Wish("chat", False))[1]
    with pytest.raises(UsageError, match="min_p"):
        vllm.DIALECT.post(request(Sampling(0.7, 0, 0.9, 0.1)), SERVED, Wish("ids"))


def sglang_last(**meta: object):
    held = {"finish_reason": {"type": "length", "length": 200}, "prompt_tokens": 171}
    return sglang.DIALECT.piece(
        {"text": "a", "output_ids": [4], "meta_info": held | {"completion_tokens": 200} | meta}
    )


@pytest.mark.parametrize(
    ("accepted", "proposed"),
    [
        ("spec_accept_token_num", "spec_draft_token_num"),
        ("spec_num_correct_drafts", "spec_num_proposed_drafts"),
    ],
)
def test_sglang_totals_under_old_and_new_names(accepted, proposed):
    # Published in its pull request 13754: 188 steps of 5 drafts, 11 accepted, 200 tokens.
    piece = sglang_last(**{"spec_verify_ct": 188, accepted: 11, proposed: 940}, cached_tokens=0)
    tally = piece.tally
    assert tally is not None
    assert (tally.steps, tally.committed, tally.verified, tally.accepted) == (188, 199, 940, 11)
    assert (piece.finish, piece.cached_tokens) == (Finish.LENGTH, 0)


def test_sglang_histogram_and_older_servers():
    histogram = [11, 14, 11, 4, 0, 3]
    told = sglang_last(
        spec_verify_ct=43, spec_num_correct_drafts=63, spec_correct_drafts_histogram=histogram
    ).tally
    assert told is not None
    assert told.accepted_at == [32, 18, 7, 3, 3]
    assert sum(told.accepted_at) == 63
    bare = sglang_last(spec_verify_ct=80).tally
    assert bare is not None
    assert (bare.steps, bare.accepted, bare.verified) == (80, None, None)
    assert sglang_last().tally is None


def test_sglang_ends():
    def finish(reason: object):
        return sglang.DIALECT.piece(
            {"text": "a", "meta_info": {"finish_reason": reason, "id": "x"}}
        )

    assert finish({"type": "stop", "matched": "END"}).finish is Finish.STOP
    assert finish({"type": "stop", "matched": 2}).finish is Finish.EOS
    assert finish(None).finish is None
    assert "out of memory" in finish({"type": "abort", "message": "out of memory"}).error


def test_sglang_gets_every_sampling_field():
    path, body = sglang.DIALECT.post(request(Sampling(0.7, 40, 0.9, 0.05)), SERVED, Wish("ids"))
    assert (path, body["input_ids"], body["stream"]) == ("/generate", [7, 8, 9], True)
    wanted = {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "max_new_tokens": 16}
    wanted |= {"min_new_tokens": 2, "stop": ["END"], "stop_token_ids": [2], "sampling_seed": 5}
    assert wanted.items() <= body["sampling_params"].items()
    with pytest.raises(UsageError, match="repetition_penalty"):
        sglang.DIALECT.post(request(Sampling(repetition_penalty=1.1)), SERVED, Wish("ids"))


def test_trtllm_totals():
    told = {
        "acceptance_histogram": [1, 0, 3],
        "num_spec_steps": 4,
        "total_accepted_draft_tokens": 6,
        "total_draft_tokens": 8,
        "acceptance_rate": 0.75,
    }
    usage = {"completion_tokens": 11, "prompt_tokens": 3}
    last = choice(finish_reason="stop", speculative_decoding=told) | {"usage": usage}
    piece = trtllm.DIALECT.piece(last)
    assert piece.finish is Finish.EOS
    assert piece.tally is not None
    assert (piece.tally.steps, piece.tally.committed) == (4, 10)
    assert piece.tally.accepted_at == [3, 3]


def test_trtllm_average_without_the_prefill():
    # 12 tokens in 4 iterations, the first of which is the prefill: 11 tokens in 3 steps.
    last = choice(finish_reason="length", avg_decoded_tokens_per_iter=3.0)
    tally = trtllm.DIALECT.piece(last | {"usage": {"completion_tokens": 12}}).tally
    assert tally is not None
    assert (tally.steps, tally.committed, tally.verified) == (3, 11, None)


def test_trtllm_penalties_need_the_length_of_the_prompt():
    asked = request(Sampling(presence_penalty=0.5))
    _, body = trtllm.DIALECT.post(asked, SERVED, Wish("ids"))
    assert body["prompt_ignore_length"] == 3
    with pytest.raises(UsageError, match="prompt"):
        trtllm.DIALECT.post(asked, SERVED, Wish("chat"))


@pytest.mark.parametrize("dialect", [vllm.DIALECT, trtllm.DIALECT, sglang.DIALECT])
def test_errors_after_the_status_and_strangers(dialect):
    assert dialect.piece({"error": {"message": "gone"}}).error == "gone"
    with pytest.raises(ValueError, match="event"):
        dialect.piece({"hello": 1})
