"""Command lines of vLLM, written by hand from its documentation (0.33)."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers.protocol import ServerPlan
from specbench.engines.servers.vllm import DRAFTERS, LAUNCHER, RULES
from specbench.errors import UsageError

TARGET = "org/target"
FRONT = f"vllm serve {TARGET} --host 127.0.0.1 --port 8123".split()
MIDDLE = shlex.split(
    "--max-num-seqs 4 --seed 7 --generation-config vllm --enable-prompt-tokens-details"
    " --no-enable-prefix-caching"
)
METRICS = ["--per-request-spec-decode-metrics", "detailed"]
HEAD = {"model": "org/head"}

GOLDEN = {
    "ngram": (
        ArmSpec("a", "ngram", 4, drafter_options={"min_n": 2, "max_n": 5}),
        '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2,'
        ' "prompt_lookup_max": 5}',
    ),
    "ngram as our own by default": (
        ArmSpec("a", "ngram", 4),
        '{"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1,'
        ' "prompt_lookup_max": 3}',
    ),
    "suffix": (
        ArmSpec(
            "a",
            "suffix",
            8,
            drafter_options={"max_tree_depth": 24, "max_cached_requests": 0},
        ),
        '{"method": "suffix", "num_speculative_tokens": 8, "suffix_decoding_max_tree_depth": 24,'
        ' "suffix_decoding_max_cached_requests": 0}',
    ),
    "draft_model": (
        ArmSpec("a", "draft_model", 5, drafter_options={**HEAD, "sampling": "sampled"}),
        '{"method": "draft_model", "num_speculative_tokens": 5, "model": "org/head",'
        ' "draft_sample_method": "probabilistic"}',
    ),
    "eagle": (
        ArmSpec("a", "eagle", 3, drafter_options={**HEAD, "revision": "abc"}),
        '{"method": "eagle", "num_speculative_tokens": 3, "model": "org/head", "revision": "abc"}',
    ),
    "eagle3": (
        ArmSpec("a", "eagle3", 3, "block", drafter_options={**HEAD, "sampling": "greedy"}),
        '{"method": "eagle3", "num_speculative_tokens": 3, "model": "org/head",'
        ' "draft_sample_method": "greedy", "rejection_sample_method": "block"}',
    ),
    "medusa": (
        ArmSpec("a", "medusa", 3, drafter_options=HEAD),
        '{"method": "medusa", "num_speculative_tokens": 3, "model": "org/head"}',
    ),
    "dflash": (
        ArmSpec("a", "dflash", 15, drafter_options=HEAD),
        '{"method": "dflash", "num_speculative_tokens": 15, "model": "org/head"}',
    ),
    "mtp": (
        ArmSpec("a", "mtp", 1),
        '{"method": "mtp", "num_speculative_tokens": 1}',
    ),
    "synthetic rate": (
        ArmSpec("a", "ngram", 2, "synthetic", rule_options={"rate": 0.5}),
        '{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 1,'
        ' "prompt_lookup_max": 3, "rejection_sample_method": "synthetic",'
        ' "synthetic_acceptance_rates": [0.5, 0.25]}',
    ),
    "synthetic length": (
        ArmSpec("a", "mtp", 3, "synthetic", rule_options={"length": 2.5}),
        '{"method": "mtp", "num_speculative_tokens": 3, "rejection_sample_method": "synthetic",'
        ' "synthetic_acceptance_length": 2.5}',
    ),
}


def plan(arm, **more):
    return ServerPlan(arm, TARGET, 8123, concurrency=4, seed=7, **more)


@pytest.mark.parametrize("name", GOLDEN)
def test_speculative(name):
    arm, config = GOLDEN[name]
    LAUNCHER.check(arm)
    expected = [*FRONT, *MIDDLE, "--speculative-config", config, *METRICS]
    assert LAUNCHER.command(plan(arm, version="0.33.0")) == expected


def test_every_drafter_and_rule_has_a_golden_line():
    arms = [arm for arm, _ in GOLDEN.values()]
    assert {arm.drafter for arm in arms} == set(DRAFTERS) - {"none"}
    assert {arm.rule for arm in arms} == set(RULES)


def test_plain():
    assert LAUNCHER.command(plan(ArmSpec("plain"), version="0.33.0")) == [*FRONT, *MIDDLE]


def test_all_settings():
    asked = plan(
        ArmSpec("plain", server={"args_extra": ["--tensor-parallel-size", 2], "python": "/py"}),
        revision="abc",
        dtype="bfloat16",
        context=4096,
        prefix_cache=True,
    )
    assert LAUNCHER.command(asked) == shlex.split(
        f"/py -m vllm.entrypoints.cli.main serve {TARGET} --host 127.0.0.1 --port 8123"
        " --revision abc --dtype bfloat16 --max-model-len 4096 --max-num-seqs 4 --seed 7"
        " --generation-config vllm --enable-prompt-tokens-details --enable-prefix-caching"
        " --tensor-parallel-size 2"
    )


@pytest.mark.parametrize(
    ("version", "offered"),
    [("0.28.1", False), ("0.29.0", True), ("0.30.0rc1", True), ("1.0.0", True), (None, True)],
)
def test_per_request_metrics_where_the_version_has_them(version, offered):
    arm, _ = GOLDEN["mtp"]
    assert (METRICS[0] in LAUNCHER.command(plan(arm, version=version))) is offered


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (ArmSpec("a", "layer_skip", 3), r"vLLM has no drafter 'layer_skip'(.|\n)*ngram"),
        (ArmSpec("a", "ngram", 3, "typical"), r"no rule 'typical'(.|\n)*rejection, block"),
        (ArmSpec("a", "eagle3", 3), "needs option 'model'"),
        (ArmSpec("a", "ngram", 0), "cannot speculate with empty drafts"),
        (ArmSpec("a", "ngram", 3, drafter_options={"max_m": 3}), "no option 'max_m'"),
        (ArmSpec("a", "ngram", 3, rule_options={"rate": 0.5}), "no option 'rate'"),
        (ArmSpec("a", "ngram", 3, "synthetic"), "synthetic with no option"),
        (ArmSpec("a", "mtp", 3, "synthetic", rule_options={"rates": [0.5]}), "give 3 numbers"),
        (
            ArmSpec("a", "mtp", 3, "synthetic", rule_options={"rate": 0.5, "length": 2}),
            "rate and length",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(arm, message):
    with pytest.raises(UsageError, match=message):
        LAUNCHER.check(arm)
    LAUNCHER.check(replace(arm, server={"command": ["vllm", "serve", "--port", "{port}"]}))
