"""vLLM, SpecForge and aiperf: their definitions in ours, and what contradicts itself."""

from __future__ import annotations

import json

import pytest

from specbench.results.foreign.formats import FORMATS
from specbench.results.schema import ResultError
from tests.results.foreign.written import (
    AIPERF,
    EAGLE3,
    METRICS,
    SPECFORGE,
    VLLM,
    changed,
    imported,
    values,
)


def refused(found):
    return {one.field: one.reason for one in found.refused}


def test_counters_of_vllm_are_those_of_drafted_steps(tmp_path):
    found = imported(tmp_path, VLLM)
    assert found.format == "vllm-bench"
    assert values(found) == {
        ("accept_length_drafted", "value"): 2.5,  # 1 + 120 / 80
        ("accept_rate", "value"): 0.5,  # 120 / 240
        ("accept_pos", "rate_1"): 0.8,
        ("accept_pos", "rate_2"): 0.5,
        ("accept_pos", "rate_3"): 0.2,
        ("ttft", "mean"): 50,
        ("ttft", "p50"): 49,
        ("ttft", "p99"): 60,
        ("tpot", "mean"): 9,
        # One sample per event: never the latency per token.
        ("itl_chunk", "mean"): 25,
        ("tokens_per_s_device", "value"): 20,
    }
    assert found.k == 3
    assert found.notes == ("requests that failed and are in no figure: 1",)
    assert {row.definition for row in found.rows if row.metric == "accept_rate"} == {
        "accept_rate@3"
    }


def test_gaps_on_the_chat_route_are_refused(tmp_path):
    found = imported(tmp_path, changed(VLLM, endpoint_type="openai-chat"))
    assert "itl_ms" in refused(found)
    assert not [row for row in found.rows if row.metric == "itl_chunk"]
    assert ("ttft", "mean") in values(found)


@pytest.mark.parametrize("spread", [{"request_rate": 2.0}, {"ramp_up_strategy": "linear"}])
def test_throughput_of_paced_requests_is_refused(tmp_path, spread):
    assert "idle time" in refused(imported(tmp_path, changed(VLLM, **spread)))["output_throughput"]


def test_a_server_without_counters_still_has_its_times(tmp_path):
    plain = {key: value for key, value in VLLM.items() if not key.startswith("spec_decode")}
    found = imported(tmp_path, plain)
    assert "no counters" in refused(found)["spec_decode_acceptance_length"]
    assert values(found)["tpot", "mean"] == 9
    assert found.k is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec_decode_acceptance_length": 2.6}, r"1 \+ accepted / drafts = 2.5"),
        ({"spec_decode_acceptance_rate": 60.0}, "in percent, = 50"),
        ({"spec_decode_per_position_acceptance_rates": [0.8, 0.5]}, "sum of .* = 1.3, but"),
        ({"spec_decode_acceptance_length": 0.9}, "below 1, or above 100 %"),
        ({"output_throughput": 30.0}, "tokens / duration = 20"),
        ({"completed": 0}, "no request was completed"),
        ({"mean_ttft_ms": -1.0}, r"mean_ttft_ms: value = -1.0"),
        ({"mean_ttft_ms": "fast"}, r"mean_ttft_ms: value = 'fast'"),
        ({"spec_decode_num_drafts": -80}, "spec_decode_num_drafts = -80"),
    ],
)
def test_vllm_files_that_contradict_themselves(tmp_path, change, message):
    with pytest.raises(ResultError, match=message):
        imported(tmp_path, changed(VLLM, **change))


def test_two_results_in_one_file_are_refused(tmp_path):
    with pytest.raises(ResultError, match="holds 2 results"):
        imported(tmp_path, [VLLM, VLLM])


def test_specforge_counts_the_token_of_each_prefill(tmp_path):
    found = imported(tmp_path, SPECFORGE)
    assert found.format == "specforge"
    assert values(found) == {
        # 310 tokens of 10 requests, 100 verifications: 3.1 there, 3.0 here (case C8).
        ("accept_length", "value"): 3.0,
        ("tokens_per_s_device", "value"): 77.5,
    }


def test_short_answers_make_the_difference_large(tmp_path):
    # 13 tokens in 4 verifications, one of them from the prefill (case C8): 3.0, not 3.25.
    metrics = METRICS | {
        "num_requests": 1,
        "output_tokens": 13,
        "throughput_tokens_per_second": 3.25,
        "spec_verify_count": 4,
        "accept_length": 3.25,
    }
    run = SPECFORGE["runs"][0] | {"metrics": metrics}
    found = imported(tmp_path, changed(SPECFORGE, runs=[run]))
    assert values(found)["accept_length", "value"] == 3.0


def test_specforge_without_verifications_has_no_accept_length(tmp_path):
    metrics = METRICS | {"accept_length": None, "spec_verify_count": None}
    plain = {"config": {"label": "plain"}, "task": {"name": "mtbench"}, "metrics": metrics}
    found = imported(tmp_path, changed(SPECFORGE, runs=[*SPECFORGE["runs"], plain]))
    assert {row.arm for row in found.rows} == {"arm 3-1-4", "arm plain"}
    assert refused(found)["accept_length"].startswith("arm plain, mtbench: nothing was verified")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accept_length": 3.2}, "spec_verify_count = 3.1"),
        ({"num_requests": 211}, "less than one token each"),
        ({"latency_seconds": 5.0}, "tokens / seconds = 62"),
    ],
)
def test_specforge_reports_that_contradict_themselves(tmp_path, change, message):
    run = SPECFORGE["runs"][0] | {"metrics": METRICS | change}
    with pytest.raises(ResultError, match=message):
        imported(tmp_path, changed(SPECFORGE, runs=[run]))


def test_the_same_task_twice_is_refused(tmp_path):
    with pytest.raises(ResultError, match="a task is there twice"):
        imported(tmp_path, changed(SPECFORGE, runs=SPECFORGE["runs"] * 2))


def test_the_older_flat_result(tmp_path):
    flat = {
        "backend": "sglang",
        "dataset": "gsm8k",
        "samples": 10,
        "output_tokens": 310,
        "latency_seconds": 4.0,
        "throughput_tokens_per_second": 77.5,
        "average_acceptance_length": 3.3,
        "spec_verify_count": 100,
    }
    found = imported(tmp_path, flat)
    assert values(found)["accept_length", "value"] == 3.0
    assert "mean of ratios" in refused(found)["average_acceptance_length"]


def test_counts_recovered_from_the_ratios_of_bench_eagle3(tmp_path):
    found = imported(tmp_path, EAGLE3)
    assert found.format == "specforge-eagle3"
    # 77.5 x 4 = 310 tokens, 310 / 3.1 = 100 verifications, 10 questions of one request.
    assert values(found)["accept_length", "value"] == pytest.approx(3.0)
    assert {row.arm for row in found.rows} == {"arm 1,3,1,4"}


def test_conversations_of_unknown_turns_are_bounded(tmp_path):
    found = imported(tmp_path, {"model": "draft", "mtbench": EAGLE3["gsm8k"]})
    assert values(found)["accept_length", "value"] == pytest.approx((2.9, 3.0))


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("own_prompts", {}, "how many requests a question is"),
        ("gsm8k", {"accept_length": 1.0}, "1.0 is also written where nothing was verified"),
    ],
)
def test_what_bench_eagle3_does_not_say(tmp_path, name, change, reason):
    part = EAGLE3["gsm8k"][0]
    part = part | {"metrics": [part["metrics"][0] | change]}
    found = imported(tmp_path, {"model": "draft", name: [part]})
    assert reason in refused(found)["accept_length"]
    assert values(found)["tokens_per_s_device", "value"] == 77.5


def test_ratios_of_no_whole_counts_are_refused(tmp_path):
    part = EAGLE3["gsm8k"][0]
    part = part | {"metrics": [part["metrics"][0] | {"accept_length": 3.14}]}
    with pytest.raises(ResultError, match=r"verifications recovered .* no whole number"):
        imported(tmp_path, {"model": "draft", "gsm8k": [part]})


def test_pooled_figures_of_aiperf_are_taken_and_means_of_ratios_refused(tmp_path):
    found = imported(tmp_path, AIPERF)
    assert found.format == "aiperf"
    assert values(found) == {
        ("accept_length_drafted", "value"): 2.5,
        ("accept_rate", "value"): 0.5,
        ("ttft", "mean"): 40,
        ("ttft", "p90"): 44,
        ("tpot", "mean"): 8,
        ("itl_chunk", "mean"): 20,
        ("latency_e2e", "mean"): 900,
        ("latency_e2e", "p50"): 880,
        ("latency_e2e", "p99"): 990,
        ("tokens_per_s_device", "value"): 110,
    }
    assert {row.suite for row in found.rows} == {"speed_bench_coding"}
    assert set(refused(found)) == {
        "spec_decode_acceptance_length",
        "output_token_throughput_per_user",
    }


def test_units_of_aiperf_are_read(tmp_path):
    seconds = changed(AIPERF, time_to_first_token={"unit": "s", "avg": 0.25})
    assert values(imported(tmp_path, seconds))["ttft", "mean"] == 250
    with pytest.raises(ResultError, match="unit 'tokens' is no time"):
        imported(tmp_path, changed(AIPERF, time_to_first_token={"unit": "tokens", "avg": 1}))


@pytest.mark.parametrize(
    "config", [{"loadgen": {"request_rate": 5}}, {"phases": [{"request_rate": 5.0}]}]
)
def test_aiperf_at_a_rate_has_no_throughput(tmp_path, config):
    found = imported(tmp_path, changed(AIPERF, input_config=config))
    assert "idle time" in refused(found)["output_token_throughput"]


def test_aiperf_files_that_contradict_themselves(tmp_path):
    wrong = {"unit": "ratio", "avg": 2.6}
    with pytest.raises(ResultError, match=r"total_spec_decode_steps = 2\.5"):
        imported(tmp_path, changed(AIPERF, spec_decode_token_weighted_acceptance_length=wrong))


def test_files_of_the_same_shape_by_other_tools_are_not_taken_for_these(tmp_path):
    for other in (changed(AIPERF, aiperf_version=None), changed(VLLM, tokenizer_id=None)):
        with pytest.raises(ResultError, match="of no format that is known here"):
            imported(tmp_path, other)
    assert imported(tmp_path, changed(AIPERF, aiperf_version=None), "aiperf").format == "aiperf"


@pytest.mark.parametrize("document", [VLLM, SPECFORGE, EAGLE3, AIPERF])
def test_every_document_is_of_one_format_and_states_its_meanings(tmp_path, document):
    found = imported(tmp_path, document)
    (path,) = tmp_path.iterdir()
    from specbench.results.foreign.document import read_file

    taken = [name for name, one in FORMATS.items() if one.recognise(read_file(path))]
    assert taken == [found.format]
    fields = {row.field for row in found.rows} | {one.field for one in found.refused}
    assert fields == {meaning.field for meaning in found.meanings}
    assert json.loads(path.read_text()) == document
