"""Command lines and YAML files of TensorRT-LLM, written by hand from its documentation."""

from __future__ import annotations

import shlex

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers.protocol import ServerPlan
from specbench.engines.servers.trtllm import DRAFTERS, LAUNCHER, RULES
from specbench.errors import UsageError

COMMAND = (
    "trtllm-serve org/target --backend pytorch --host 127.0.0.1 --port 8123"
    " --max_batch_size 4 --extra_llm_api_options trtllm.yaml"
)
PLAIN = """\
kv_cache_config:
  enable_block_reuse: false
return_perf_metrics: true
enable_iter_perf_stats: true
"""

GOLDEN = {
    "ngram": (
        ArmSpec("a", "ngram", 3, "target_match", drafter_options={"max_n": 4}),
        """\
disable_overlap_scheduler: true
speculative_config:
  decoding_type: "NGram"
  max_draft_len: 3
  max_matching_ngram_size: 4
  is_public_pool: false
""",
    ),
    "draft_model": (
        ArmSpec("a", "draft_model", 3, "target_match", drafter_options={"model": "org/draft"}),
        """\
disable_overlap_scheduler: true
speculative_config:
  decoding_type: "DraftTarget"
  max_draft_len: 3
  speculative_model_dir: "org/draft"
""",
    ),
    "eagle3": (
        ArmSpec("a", "eagle3", 4, "target_match", drafter_options={"model": "org/head"}),
        """\
speculative_config:
  decoding_type: "Eagle"
  max_draft_len: 4
  speculative_model_dir: "org/head"
""",
    ),
    "mtp relaxed": (
        ArmSpec("a", "mtp", 2, "relaxed", rule_options={"top_n": 10, "delta": 0.6}),
        """\
speculative_config:
  decoding_type: "MTP"
  max_draft_len: 2
  num_nextn_predict_layers: 2
  use_relaxed_acceptance_for_thinking: true
  relaxed_topk: 10
  relaxed_delta: 0.6
""",
    ),
}


def plan(arm, **more):
    return ServerPlan(arm, "org/target", 8123, concurrency=4, **more)


@pytest.mark.parametrize("name", GOLDEN)
def test_speculative(name):
    arm, rest = GOLDEN[name]
    LAUNCHER.check(arm)
    assert LAUNCHER.command(plan(arm)) == COMMAND.split()
    assert LAUNCHER.files(plan(arm)) == {"trtllm.yaml": PLAIN + rest}


def test_every_drafter_and_rule_has_a_golden_file():
    arms = [arm for arm, _ in GOLDEN.values()]
    assert {arm.drafter for arm in arms} == set(DRAFTERS) - {"none"}
    assert {arm.rule for arm in arms} == set(RULES)


def test_plain():
    assert LAUNCHER.command(plan(ArmSpec("plain"))) == COMMAND.split()
    assert LAUNCHER.files(plan(ArmSpec("plain"))) == {"trtllm.yaml": PLAIN}


def test_all_settings():
    arm = ArmSpec("plain", server={"python": "/py", "args_extra": ["--tp_size", "2"]})
    asked = plan(
        arm, revision="abc", dtype="bfloat16", context=4096, prefix_cache=True, folder="/tmp/x"
    )
    assert LAUNCHER.command(asked) == shlex.split(
        "/py -m tensorrt_llm.commands.serve serve org/target --backend pytorch --host 127.0.0.1"
        " --port 8123 --revision abc --max_seq_len 4096 --max_batch_size 4"
        " --extra_llm_api_options /tmp/x/trtllm.yaml --tp_size 2"
    )
    content = LAUNCHER.files(asked)["trtllm.yaml"]
    assert content.startswith('dtype: "bfloat16"\nkv_cache_config:\n  enable_block_reuse: true\n')


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (ArmSpec("a", "eagle", 3, "target_match"), "TensorRT-LLM has no drafter 'eagle'"),
        (ArmSpec("a", "ngram", 3, "relaxed"), "no rule 'relaxed' for drafter ngram"),
        (ArmSpec("a", "mtp", 3, "rejection"), r"no rule 'rejection'(.|\n)*target_match, relaxed"),
    ],
)
def test_what_it_cannot_do_is_refused(arm, message):
    with pytest.raises(UsageError, match=message):
        LAUNCHER.check(arm)
