"""``trtllm-serve`` with the PyTorch backend. Written for TensorRT-LLM 1.2 and 1.3 from its
documentation; speculation is set in a YAML file that the command line names.

Rules: drafts that equal the token drawn from the target are kept, ``target_match``; MTP heads may
also be judged by ``relaxed`` while a reasoning model thinks.
"""

from __future__ import annotations

import json

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given
from specbench.engines.servers.installed import package_version, python_of
from specbench.engines.servers.offers import MODEL, Offer, check_arm, judged_by
from specbench.engines.servers.protocol import ServerPlan

FILE = "trtllm.yaml"

_EXACT = ("target_match",)
_SHARED = {
    "max_n": "longest suffix looked up (3)",
    "public_pool": "whether requests look up each other's tokens (false)",
}

DRAFTERS = {
    "none": Offer(),
    "ngram": Offer(_SHARED, rules=_EXACT),
    "draft_model": Offer({"model": MODEL}, needs=("model",), rules=_EXACT),
    "eagle3": Offer({"model": MODEL}, needs=("model",), rules=_EXACT),
    "mtp": Offer(),
}
RULES = {
    "target_match": Offer(),
    "relaxed": Offer(
        {
            "top_n": "keep drafts among the target's n first choices",
            "delta": "largest difference of log-probabilities to the first choice",
        },
        needs=("top_n", "delta"),
    ),
}

TYPES = {
    "ngram": "NGram",
    "draft_model": "DraftTarget",
    # 1.3 calls it Eagle3 and takes the name before that as well.
    "eagle3": "Eagle",
    "mtp": "MTP",
}
TWO_MODELS = ("ngram", "draft_model")
"""Drafters outside the target's graph: they work with the overlap scheduler off only."""


class TrtLlm:
    """Implements ``servers.protocol.Launcher``."""

    name = "trtllm"
    together = False
    drafters = tuple(DRAFTERS)
    rules = tuple(RULES)
    health = "/health"

    def judged_by(self, drafter: str) -> tuple[str, ...]:
        """See the protocol."""
        return judged_by(DRAFTERS, RULES, drafter)

    def check(self, arm: ArmSpec) -> None:
        """See the protocol."""
        check_arm("TensorRT-LLM", arm, DRAFTERS, RULES)

    def command(self, plan: ServerPlan) -> list[str]:
        """The server has no seed of its own; requests carry theirs."""
        own = given.own_command(plan)
        if own is not None:
            return own
        python = plan.arm.server.get("python")
        start = [str(python), "-m", "tensorrt_llm.commands.serve"] if python else ["trtllm-serve"]
        command = [*start, "serve"] if python else start
        command += [plan.target, "--backend", "pytorch"]
        command += ["--host", plan.host, "--port", str(plan.port)]
        if plan.revision:
            command += ["--revision", plan.revision]
        if plan.context:
            command += ["--max_seq_len", str(plan.context)]
        command += ["--max_batch_size", str(plan.concurrency)]
        command += ["--extra_llm_api_options", given.file_in(plan, FILE)]
        return command + given.words(plan.arm, "args_extra")

    def files(self, plan: ServerPlan) -> dict[str, str]:
        """The YAML file; values are written as JSON, which YAML contains."""
        if plan.arm.server.get("command"):
            return {}
        settings: dict[str, object] = {}
        if plan.dtype:
            settings["dtype"] = plan.dtype
        settings["kv_cache_config"] = {"enable_block_reuse": plan.prefix_cache}
        settings["return_perf_metrics"] = True
        settings["enable_iter_perf_stats"] = True
        if not plan.arm.plain:
            if plan.arm.drafter in TWO_MODELS:
                settings["disable_overlap_scheduler"] = True
            settings["speculative_config"] = speculative_config(plan.arm)
        return {FILE: _yaml(settings)}

    def environment(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def python(self, arm: ArmSpec) -> str:
        """The interpreter of the installed ``trtllm-serve`` program."""
        return python_of(arm, "trtllm-serve")

    def version(self, python: str) -> str:
        """Of tensorrt_llm."""
        return package_version(python, "tensorrt_llm", "type: pip install tensorrt_llm")


def speculative_config(arm: ArmSpec) -> dict[str, object]:
    """The ``speculative_config`` table of the YAML file."""
    options = arm.drafter_options
    config: dict[str, object] = {"decoding_type": TYPES[arm.drafter], "max_draft_len": arm.k}
    if options.get("model"):
        config["speculative_model_dir"] = options["model"]
    if arm.drafter == "ngram":
        config["max_matching_ngram_size"] = options.get("max_n", 3)
        config["is_public_pool"] = options.get("public_pool", False)
    if arm.drafter == "mtp":
        config["num_nextn_predict_layers"] = arm.k
    if arm.rule == "relaxed":
        config["use_relaxed_acceptance_for_thinking"] = True
        config["relaxed_topk"] = arm.rule_options["top_n"]
        config["relaxed_delta"] = arm.rule_options["delta"]
    return config


def _yaml(settings: dict[str, object]) -> str:
    lines = []
    for key, value in settings.items():
        if isinstance(value, dict):
            lines.append(f"{key}:")
            lines += [f"  {name}: {json.dumps(inner)}" for name, inner in value.items()]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


LAUNCHER = TrtLlm()
