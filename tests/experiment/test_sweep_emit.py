"""What a sweep recommends as flags of servers, word by word."""

from __future__ import annotations

import json
import shlex

import pytest

from specbench.errors import UsageError
from specbench.experiment.schema import check
from specbench.experiment.sweep.emit import emitted
from specbench.results.sweep.candidates import named
from specbench.results.sweep.summary import Asked, Recommended, SweepSummary

EXPERIMENT = check(
    {
        "schema_version": 1,
        "engine": "scripted",
        "target": {"model": "m"},
        "workload": {"suites": ["code"]},
        "arm": {
            "look": {"drafter": "ngram", "k": 5, "options": {"min_n": 2, "max_n": 4}},
            "tree": {"drafter": "eagle2", "k": 4, "options": {"model": "head", "top_k": 8}},
        },
    },
    "test",
)
LOOK, TREE = named("look", 3), named("tree", 4, 16)


def summary(*answers):
    recommended = tuple(
        Recommended(load, name, k, nodes, name != "plain", "") for load, name, k, nodes in answers
    )
    asked = Asked((1, 4, 16), (LOOK, TREE), 8)
    return SweepSummary("s", "t", "m", asked, 0.0, recommended=recommended)


ANSWERS = ((1, TREE.name, 4, 16), (4, LOOK.name, 3, None), (16, "plain", 0, None))


def test_vllm_takes_one_object():
    first, *lines = emitted(summary(*ANSWERS[1:]), EXPERIMENT, "vllm").splitlines()
    assert first == "# measured on engine scripted; sweep with --engine vllm to be sure"
    flag, config = shlex.split(lines[1])
    assert (lines[0], flag) == ("# load 4: K = 3 (look-k3)", "--speculative-config")
    assert json.loads(config) == {
        "method": "ngram",
        "num_speculative_tokens": 3,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
    assert lines[2:] == ["# load 16: plain decoding, no flags"]


def test_sglang_takes_flags_and_counts_the_token_before_the_drafts():
    _, *lines = emitted(summary(*ANSWERS), EXPERIMENT, "sglang").splitlines()
    assert lines == [
        "# load 1: K = 4 (tree-k4-n16)",
        "# measured under rule multi_round; sglang applies target_match",
        "--speculative-algorithm EAGLE --speculative-draft-model-path head "
        "--speculative-num-steps 4 --speculative-eagle-topk 8 --speculative-num-draft-tokens 17",
        "# load 4: K = 3 (look-k3)",
        "# left out, sglang does not know it: min_n = 2",
        "# measured under rule rejection; sglang applies target_match",
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 4 "
        "--speculative-ngram-max-bfs-breadth 1 --speculative-ngram-max-trie-depth 4",
        "# load 16: plain decoding, no flags",
    ]


def test_before_anything_is_recommended_nothing_is_emitted():
    with pytest.raises(UsageError, match="recommends nothing yet"):
        emitted(summary(), EXPERIMENT, "vllm")
