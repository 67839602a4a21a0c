"""``vllm serve``. Written for vLLM 0.33 from its documentation and ``vllm/config/speculative.py``.

Rules: ``rejection`` is what it does unasked, with one-hot draft laws unless the draft model samples
(``draft_sample_method``); ``block`` and ``synthetic`` are ``rejection_sample_method``.
"""

from __future__ import annotations

import json

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given
from specbench.engines.servers.installed import package_version, python_of
from specbench.engines.servers.offers import (
    MODEL,
    SYNTHETIC,
    Offer,
    check_arm,
    judged_by,
    position_rates,
)
from specbench.engines.servers.protocol import ServerPlan

PER_REQUEST_SINCE = (0, 29)
"""First version with ``--per-request-spec-decode-metrics``; it refuses the flag without drafts."""

_HEAD = {"model": MODEL, "revision": "of the head (main)"}
_SAMPLED = {"sampling": "sampled: draws from the draft law; greedy: its argmax (greedy)"}
_LOOKUP = {
    "min_n": "shortest suffix looked up (1)",
    "max_n": "longest suffix looked up (3)",
}
_SUFFIX = {
    "max_tree_depth": "matched and drafted tokens together",
    "max_cached_requests": "requests remembered for later ones; 0: none",
    "max_spec_factor": "longest draft per matched token",
    "min_token_prob": "smallest estimated probability of a drafted token",
}

DRAFTERS = {
    "none": Offer(),
    "ngram": Offer(_LOOKUP),
    "suffix": Offer(_SUFFIX),
    "draft_model": Offer({**_HEAD, **_SAMPLED}, needs=("model",)),
    "eagle": Offer({**_HEAD, **_SAMPLED}, needs=("model",)),
    "eagle3": Offer({**_HEAD, **_SAMPLED}, needs=("model",)),
    "medusa": Offer(_HEAD, needs=("model",)),
    "dflash": Offer({**_HEAD, **_SAMPLED}, needs=("model",)),
    "mtp": Offer({**_HEAD, **_SAMPLED, "model": "file with the heads (those in the target)"}),
}
RULES = {"rejection": Offer(), "block": Offer(), "synthetic": SYNTHETIC}

_SAMPLE_METHOD = {"sampled": "probabilistic", "greedy": "greedy"}


class Vllm:
    """Implements ``servers.protocol.Launcher``."""

    name = "vllm"
    together = False
    drafters = tuple(DRAFTERS)
    rules = tuple(RULES)
    health = "/health"

    def judged_by(self, drafter: str) -> tuple[str, ...]:
        """See the protocol."""
        return judged_by(DRAFTERS, RULES, drafter)

    def check(self, arm: ArmSpec) -> None:
        """See the protocol."""
        check_arm("vLLM", arm, DRAFTERS, RULES)
        if arm.rule == "synthetic" and not arm.plain and not arm.server.get("command"):
            position_rates(arm)

    def command(self, plan: ServerPlan) -> list[str]:
        """Sampling defaults of the model are off: every request says what it wants."""
        own = given.own_command(plan)
        if own is not None:
            return own
        python = plan.arm.server.get("python")
        start = [str(python), "-m", "vllm.entrypoints.cli.main"] if python else ["vllm"]
        command = [*start, "serve", plan.target, "--host", plan.host, "--port", str(plan.port)]
        if plan.revision:
            command += ["--revision", plan.revision]
        if plan.dtype:
            command += ["--dtype", plan.dtype]
        if plan.context:
            command += ["--max-model-len", str(plan.context)]
        command += ["--max-num-seqs", str(plan.concurrency), "--seed", str(plan.seed)]
        command += ["--generation-config", "vllm", "--enable-prompt-tokens-details"]
        command.append(
            "--enable-prefix-caching" if plan.prefix_cache else "--no-enable-prefix-caching"
        )
        if not plan.arm.plain:
            command += ["--speculative-config", json.dumps(speculative_config(plan.arm))]
            if _at_least(plan.version, PER_REQUEST_SINCE):
                command += ["--per-request-spec-decode-metrics", "detailed"]
        return command + given.words(plan.arm, "args_extra")

    def files(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def environment(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def python(self, arm: ArmSpec) -> str:
        """The interpreter of the installed ``vllm`` program."""
        return python_of(arm, "vllm")

    def version(self, python: str) -> str:
        """Of vllm."""
        return package_version(python, "vllm", "type: pip install vllm")


def speculative_config(arm: ArmSpec) -> dict[str, object]:
    """The object behind ``--speculative-config``."""
    options = arm.drafter_options
    config: dict[str, object] = {"method": arm.drafter, "num_speculative_tokens": arm.k}
    for name in ("model", "revision"):
        if options.get(name):
            config[name] = options[name]
    if arm.drafter == "ngram":
        # Its own default would be one length of 5.
        config["prompt_lookup_min"] = options.get("min_n", 1)
        config["prompt_lookup_max"] = options.get("max_n", 3)
    if arm.drafter == "suffix":
        config |= {f"suffix_decoding_{name}": value for name, value in options.items()}
    if "sampling" in options:
        config["draft_sample_method"] = _SAMPLE_METHOD[str(options["sampling"])]
    if arm.rule != "rejection":
        config["rejection_sample_method"] = arm.rule
    if arm.rule == "synthetic":
        rates = position_rates(arm)
        if rates is None:
            config["synthetic_acceptance_length"] = arm.rule_options["length"]
        else:
            config["synthetic_acceptance_rates"] = rates
    return config


def _at_least(version: str | None, first: tuple[int, int]) -> bool:
    """Whether a version is that one or later; unknown ones count as the newest."""
    numbers = [int(part) for part in (version or "").split(".")[:2] if part.isdigit()]
    return len(numbers) < 2 or tuple(numbers) >= first


LAUNCHER = Vllm()
