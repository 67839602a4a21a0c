"""Command lines of SGLang, written by hand from its documentation (0.5.23)."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers.protocol import ServerPlan
from specbench.engines.servers.sglang import DRAFTERS, LAUNCHER, RULES
from specbench.errors import UsageError

FRONT = (
    "python3 -m sglang.launch_server --model-path org/target --host 127.0.0.1 --port 8123"
    " --max-running-requests 4 --random-seed 7 --sampling-defaults openai"
    " --enable-metrics --enable-cache-report --disable-radix-cache"
)
HEAD = {"model": "org/head"}

GOLDEN = {
    "ngram": (
        ArmSpec("a", "ngram", 4, "target_match"),
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 5"
        " --speculative-ngram-max-bfs-breadth 1",
    ),
    "ngram tree": (
        ArmSpec(
            "a",
            "ngram",
            15,
            "target_match",
            drafter_options={"breadth": 10, "match": "PROB", "max_n": 12},
        ),
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 16"
        " --speculative-ngram-max-bfs-breadth 10 --speculative-ngram-match-type PROB"
        " --speculative-ngram-max-trie-depth 12",
    ),
    "draft_model": (
        ArmSpec("a", "draft_model", 4, "target_match", drafter_options=HEAD),
        "--speculative-algorithm STANDALONE --speculative-draft-model-path org/head"
        " --speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5",
    ),
    "eagle tree": (
        ArmSpec(
            "a",
            "eagle",
            5,
            "target_match",
            drafter_options={**HEAD, "revision": "abc", "topk": 4, "tree_tokens": 15},
        ),
        "--speculative-algorithm EAGLE --speculative-draft-model-path org/head"
        " --speculative-draft-model-revision abc"
        " --speculative-num-steps 5 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16",
    ),
    "eagle3 with thresholds": (
        ArmSpec(
            "a",
            "eagle3",
            3,
            "threshold",
            drafter_options=HEAD,
            rule_options={"single": 0.9, "acc": 0.8},
        ),
        "--speculative-algorithm EAGLE3 --speculative-draft-model-path org/head"
        " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
        " --speculative-accept-threshold-single 0.9 --speculative-accept-threshold-acc 0.8",
    ),
    "mtp with rejection": (
        ArmSpec("a", "mtp", 1, "rejection"),
        "--speculative-algorithm NEXTN"
        " --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 2"
        " --speculative-use-rejection-sampling",
    ),
    "dflash": (
        ArmSpec("a", "dflash", 15, "target_match", drafter_options=HEAD),
        "--speculative-algorithm DFLASH --speculative-draft-model-path org/head"
        " --speculative-num-draft-tokens 16",
    ),
}


def plan(arm, **more):
    arm = replace(arm, server={"python": "python3", **arm.server})
    return ServerPlan(arm, "org/target", 8123, concurrency=4, seed=7, **more)


@pytest.mark.parametrize("name", GOLDEN)
def test_speculative(name):
    arm, rest = GOLDEN[name]
    LAUNCHER.check(arm)
    assert LAUNCHER.command(plan(arm)) == f"{FRONT} {rest}".split()


def test_every_drafter_and_rule_has_a_golden_line():
    arms = [arm for arm, _ in GOLDEN.values()]
    assert {arm.drafter for arm in arms} == set(DRAFTERS) - {"none"}
    assert {arm.rule for arm in arms} == set(RULES)


def test_plain():
    assert LAUNCHER.command(plan(ArmSpec("plain"))) == FRONT.split()
    assert LAUNCHER.command(ServerPlan(ArmSpec("plain"), "t", 1))[0] == sys.executable


def test_all_settings():
    arm = ArmSpec("plain", server={"args_extra": ["--tp", "2"]})
    asked = plan(arm, revision="abc", dtype="float16", context=4096, prefix_cache=True)
    assert LAUNCHER.command(asked) == shlex.split(
        "python3 -m sglang.launch_server --model-path org/target --host 127.0.0.1 --port 8123"
        " --revision abc --dtype float16 --context-length 4096 --max-running-requests 4"
        " --random-seed 7 --sampling-defaults openai --enable-metrics --enable-cache-report --tp 2"
    )


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (ArmSpec("a", "suffix", 3, "target_match"), r"SGLang has no drafter 'suffix'"),
        (ArmSpec("a", "mtp", 3, "block"), r"no rule 'block'(.|\n)*target_match, threshold"),
        (ArmSpec("a", "ngram", 3, "rejection"), r"no rule 'rejection' for drafter ngram"),
        (ArmSpec("a", "mtp", 3, "threshold", rule_options={"acc": 0.5}), "needs option 'single'"),
        (
            ArmSpec("a", "eagle", 3, "rejection", drafter_options={**HEAD, "topk": 2}),
            "rejection sampling for chains only",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(arm, message):
    with pytest.raises(UsageError, match=message):
        LAUNCHER.check(arm)
    LAUNCHER.check(replace(arm, server={"command": ["serve", "{port}"]}))
