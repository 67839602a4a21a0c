"""Files of other tools in the shape in which those tools write them, with small numbers."""

from __future__ import annotations

import copy
import json

from specbench.results.foreign.format import Asked
from specbench.results.foreign.importing import import_file


def answer(question=1, category="qa", turns=1, lengths=(4, 2), tokens=None, seconds=None, **more):
    """One line of a Spec-Bench answer file."""
    choice = {
        "index": 0,
        "turns": more.get("texts", [f"answer {turn}" for turn in range(turns)]),
        "decoding_steps": [len(lengths)] * turns,
        "new_tokens": list(tokens or [sum(lengths)]),
        "wall_time": list(seconds or [0.5] * turns),
        "accept_lengths": list(lengths),
    }
    return {
        "question_id": question,
        "category": category,
        "answer_id": "x",
        "model_id": "vicuna",
        "choices": [choice],
        "tstamp": 1.0,
    }


VLLM = {
    "date": "20260101-000000",
    "endpoint_type": "openai",
    "backend": "openai",
    "label": "openai",
    "model_id": "meta/model",
    "tokenizer_id": "meta/model",
    "num_prompts": 3,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 1,
    "duration": 10.0,
    "completed": 2,
    "failed": 1,
    "total_input_tokens": 10,
    "total_output_tokens": 200,
    "request_throughput": 0.2,
    "request_goodput": None,
    "output_throughput": 20.0,
    "total_token_throughput": 21.0,
    "mean_ttft_ms": 50.0,
    "median_ttft_ms": 49.0,
    "std_ttft_ms": 1.0,
    "p99_ttft_ms": 60.0,
    "mean_tpot_ms": 9.0,
    "mean_itl_ms": 25.0,
    "spec_decode_acceptance_rate": 50.0,
    "spec_decode_acceptance_length": 2.5,
    "spec_decode_num_drafts": 80,
    "spec_decode_draft_tokens": 240,
    "spec_decode_accepted_tokens": 120,
    "spec_decode_per_position_acceptance_rates": [0.8, 0.5, 0.2],
}

METRICS = {
    "num_samples": 5,
    "num_requests": 10,
    "output_tokens": 310,
    "latency_seconds": 4.0,
    "throughput_tokens_per_second": 77.5,
    "accept_length": 3.1,
    "spec_verify_count": 100,
    "accuracy": None,
    "num_scored": 0,
}

SPECFORGE = {
    "model": "target",
    "draft_model": "draft",
    "sampling": {"temperature": 0.0, "top_p": 1.0},
    "concurrency": 4,
    "created_at": "2026-01-01T00:00:00",
    "runs": [{"config": {"label": "3-1-4"}, "task": {"name": "mtbench"}, "metrics": METRICS}],
}

EAGLE3 = {
    "model": "draft",
    "gsm8k": [
        {
            "batch_size": 1,
            "steps": 3,
            "topk": 1,
            "num_draft_tokens": 4,
            "metrics": [
                {
                    "latency": 4.0,
                    "output_throughput": 77.5,
                    "accept_length": 3.1,
                    "accuracy": 0.5,
                    "num_questions": 10,
                    "num_valid_predictions": 10,
                    "categorical_performance": None,
                }
            ],
            "num_samples": 10,
        }
    ],
}

AIPERF = {
    "schema_version": "1.0",
    "aiperf_version": "0.3.0",
    "request_count": {"unit": "requests", "avg": 4.0},
    "request_latency": {"unit": "ms", "avg": 900.0, "p50": 880.0, "p99": 990.0, "std": 3.0},
    "time_to_first_token": {"unit": "ms", "avg": 40.0, "p90": 44.0},
    "inter_token_latency": {"unit": "ms", "avg": 8.0},
    "inter_chunk_latency": {"unit": "ms", "avg": 20.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 110.0},
    "output_token_throughput_per_user": {"unit": "tokens/sec/user", "avg": 125.0},
    "spec_decode_acceptance_length": {"unit": "ratio", "avg": 2.4},
    "spec_decode_token_weighted_acceptance_length": {"unit": "ratio", "avg": 2.5},
    "spec_decode_overall_draft_acceptance_rate": {"unit": "%", "avg": 50.0},
    "total_spec_decode_steps": {"unit": "count", "avg": 80},
    "total_accepted_draft_tokens": {"unit": "tokens", "avg": 120},
    "total_draft_tokens": {"unit": "tokens", "avg": 240},
    "input_config": {"datasets": [{"format": "speed_bench_coding"}], "loadgen": {"concurrency": 1}},
}


def changed(document, **values):
    """A copy with some fields of another value; None removes one."""
    made = copy.deepcopy(document) | values
    return {name: value for name, value in made.items() if value is not None}


def imported(folder, document, form="auto", name="foreign.json", **asked):
    """Write a document, or one per line of a list, and import it."""
    path = folder / name
    lines = document if isinstance(document, list) else [document]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return import_file(path, None, Asked("arm", **asked), form)


def values(found, category=""):
    """(metric, statistic) -> value, or bounds, of an import's rows without or with a category."""
    return {
        (row.metric, row.stat): row.value if row.value is not None else (row.low, row.high)
        for row in found.rows
        if row.category == category
    }
