"""llama.cpp's server: through the wheel ``xllamacpp``, or a ``llama-server`` of one's own.

Written for xllamacpp 2026.10 (llama.cpp b11549). Its rules: drafts that carry no law (n-grams, and
a draft model's argmax) are compared with the token drawn from the target, ``target_match``; a draft
model that samples (``draft.probabilistic``) is judged by ``rejection``; ``synthetic`` is a coin.

A draft that samples draws from its ten most likely tokens at the request's temperature, whatever
truncation the request asks for. The output follows the target all the same; acceptance is that of
such a draft. An end token that was a draft is not counted as accepted.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import psutil

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given
from specbench.engines.servers.gguf_of import gguf_file
from specbench.engines.servers.installed import package_version
from specbench.engines.servers.offers import SYNTHETIC, Offer, check_arm, judged_by, position_rates
from specbench.engines.servers.protocol import ServerPlan
from specbench.errors import UsageError

CHILD = "specbench.engines.servers.llamacpp_child"
SIZE = 3
"""Tokens looked up where an arm does not say."""

_LOOKUP = {
    "min_n": "tokens looked up (3); llama.cpp knows one length",
    "max_n": "the same as min_n",
    "min_hits": "occurrences before a key drafts (1)",
}
_MODEL = {
    "model": "draft model: .gguf file or demo name (required)",
    "p_min": "stop drafting below this draft probability (0)",
    "min_k": "shortest draft worth verifying (0)",
}
_NO_LAW = ("target_match", "rejection", "synthetic")
"""A draft without a law of its own is kept with the target's probability under either rule."""

DRAFTERS = {
    "none": Offer(),
    "draft_model": Offer(_MODEL, needs=("model",)),
    "ngram": Offer(_LOOKUP, rules=_NO_LAW),
    "ngram_map_k": Offer(_LOOKUP, rules=_NO_LAW),
    "ngram_map_k4v": Offer(_LOOKUP, rules=_NO_LAW),
    "ngram_mod": Offer(
        {"min_n": _LOOKUP["min_n"], "max_n": _LOOKUP["max_n"], "min_k": _MODEL["min_k"]},
        rules=_NO_LAW,
    ),
    "ngram_cache": Offer(rules=_NO_LAW),
    "eagle3": Offer(_MODEL, needs=("model",)),
    "mtp": Offer({**_MODEL, "model": "file with the heads (those in the target)"}),
}
RULES = {"target_match": Offer(), "rejection": Offer(), "synthetic": SYNTHETIC}

SAMPLING = ("draft_model", "eagle3", "mtp")
"""Drafters that can draw their tokens; lookups have nothing to draw from."""

SPEC_TYPES = {
    "draft_model": "draft-simple",
    "eagle3": "draft-eagle3",
    "mtp": "draft-mtp",
    "ngram": "ngram-simple",
    "ngram_map_k": "ngram-map-k",
    "ngram_map_k4v": "ngram-map-k4v",
    "ngram_mod": "ngram-mod",
    "ngram_cache": "ngram-cache",
}


class LlamaCpp:
    """Implements ``servers.protocol.Launcher``."""

    name = "llamacpp"
    together = True
    drafters = tuple(DRAFTERS)
    rules = tuple(RULES)
    health = "/health"

    def judged_by(self, drafter: str) -> tuple[str, ...]:
        """See the protocol."""
        return judged_by(DRAFTERS, RULES, drafter)

    def check(self, arm: ArmSpec) -> None:
        """See the protocol."""
        check_arm("llama.cpp", arm, DRAFTERS, RULES)
        if not arm.server.get("command"):
            _speculation(arm)

    def command(self, plan: ServerPlan) -> list[str]:
        """The child with pinned settings; ``target`` may be a name, a file or a folder."""
        plan = replace(plan, target=str(gguf_file(plan.target, plan.dtype)))
        own = given.own_command(plan)
        if own is not None:
            return own
        command = [self.python(plan.arm), "-m", CHILD, "--model", plan.target]
        command += ["--alias", Path(plan.target).stem]
        command += ["--host", plan.host, "--port", str(plan.port)]
        command += ["--parallel", str(plan.concurrency), "--ctx-size", str(plan.context or 0)]
        command += ["--kv", "f32" if plan.dtype == "float32" else "f16"]
        command += ["--threads", str(usable_cores())]
        if plan.prefix_cache:
            command.append("--cache-prompt")
        return command + _speculation(plan.arm, plan.dtype) + given.words(plan.arm, "args_extra")

    def files(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def environment(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def python(self, arm: ArmSpec) -> str:
        """Needs specbench and xllamacpp."""
        return given.interpreter(arm)

    def version(self, python: str) -> str:
        """Of xllamacpp; its last number is llama.cpp's build."""
        return package_version(
            python, "xllamacpp", "type: pip install 'specbench-llm[serve-llamacpp]'"
        )


def usable_cores() -> int:
    """Physical cores that this process may run on: more threads only get in each other's way."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, psutil.cpu_count(logical=False) or allowed or 1))


def _speculation(arm: ArmSpec, dtype: str = "") -> list[str]:
    if arm.plain:
        return []
    options = arm.drafter_options
    words = ["--spec-type", SPEC_TYPES[arm.drafter], "--draft-max", str(arm.k)]
    if options.get("model"):
        words += ["--draft-model", str(gguf_file(str(options["model"]), dtype))]
    if options.get("min_k"):
        words += ["--draft-min", str(options["min_k"])]
    if options.get("p_min"):
        words += ["--draft-p-min", str(options["p_min"])]
    if "min_n" in DRAFTERS[arm.drafter].options:
        words += ["--ngram-size", str(_size(arm))]
    if options.get("min_hits"):
        words += ["--ngram-min-hits", str(options["min_hits"])]
    if arm.rule == "rejection" and arm.drafter in SAMPLING:
        words.append("--draft-probabilistic")
    if arm.rule == "synthetic":
        rates = position_rates(arm)
        if rates is None:
            words += ["--synth-length", str(arm.rule_options["length"])]
        else:
            words += ["--synth-rates", ",".join(map(repr, rates))]
    return words


def _size(arm: ArmSpec) -> int:
    low = arm.drafter_options.get("min_n", arm.drafter_options.get("max_n", SIZE))
    high = arm.drafter_options.get("max_n", low)
    if low != high or not isinstance(low, int):
        raise UsageError(
            f"arm {arm.name}: min_n = {low!r}, max_n = {high!r}, but llama.cpp looks up n-grams "
            "of one length",
            f"set both to the same number, e.g. {SIZE}",
        )
    return low


LAUNCHER = LlamaCpp()
