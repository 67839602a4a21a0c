"""``python -m sglang.launch_server``. Written for SGLang 0.5.23 from its documentation.

Rules: unasked it draws each token from the target and follows the draft that equals it, a tree by
one draw per node: ``target_match``. Thresholds below 1 make that ``threshold``, which is lossy.
``rejection`` is ``--speculative-use-rejection-sampling``, for chains only.

SGLang counts the token before the drafts as drafted: ``--speculative-num-draft-tokens`` is K + 1.
"""

from __future__ import annotations

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given
from specbench.engines.servers.installed import package_version
from specbench.engines.servers.offers import MODEL, Offer, check_arm, judged_by
from specbench.engines.servers.protocol import ServerPlan
from specbench.errors import UsageError

_TREE = {
    "topk": "candidates per node; above 1 drafts are trees (1)",
    "tree_tokens": "drafts verified per step where topk is above 1 (k)",
}
_HEAD = {"model": MODEL, "revision": "of the head (main)", **_TREE}
_TRIE = {
    "breadth": "candidates per node of the trie; above 1 drafts are trees (1)",
    "match": "BFS: the most recent continuations, PROB: the most frequent (BFS)",
    "max_n": "longest suffix kept and matched (18)",
}

DRAFTERS = {
    "none": Offer(),
    "ngram": Offer(_TRIE, rules=("target_match", "threshold")),
    "draft_model": Offer(_HEAD, needs=("model",)),
    "eagle": Offer(_HEAD, needs=("model",)),
    "eagle3": Offer(_HEAD, needs=("model",)),
    "mtp": Offer({**_HEAD, "model": "folder with the heads (those in the target)"}),
    "dflash": Offer({"model": MODEL, "revision": _HEAD["revision"]}, needs=("model",)),
}
RULES = {
    "target_match": Offer(),
    "threshold": Offer(
        {
            "single": "keep a draft of at least this target probability",
            "acc": "divisor of the target probability in the coin's test",
        },
        needs=("single", "acc"),
    ),
    "rejection": Offer(),
}

ALGORITHMS = {
    "ngram": "NGRAM",
    "draft_model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
}


class Sglang:
    """Implements ``servers.protocol.Launcher``."""

    name = "sglang"
    together = False
    drafters = tuple(DRAFTERS)
    rules = tuple(RULES)
    health = "/health"

    def judged_by(self, drafter: str) -> tuple[str, ...]:
        """See the protocol."""
        return judged_by(DRAFTERS, RULES, drafter)

    def check(self, arm: ArmSpec) -> None:
        """See the protocol."""
        check_arm("SGLang", arm, DRAFTERS, RULES)
        if arm.rule == "rejection" and _branches(arm) > 1 and not arm.server.get("command"):
            raise UsageError(
                f"arm {arm.name}: SGLang has rejection sampling for chains only",
                "set topk = 1, or rule target_match",
            )

    def command(self, plan: ServerPlan) -> list[str]:
        """Sampling defaults of the model are off: every request says what it wants."""
        own = given.own_command(plan)
        if own is not None:
            return own
        command = [self.python(plan.arm), "-m", "sglang.launch_server"]
        command += ["--model-path", plan.target, "--host", plan.host, "--port", str(plan.port)]
        if plan.revision:
            command += ["--revision", plan.revision]
        if plan.dtype:
            command += ["--dtype", plan.dtype]
        if plan.context:
            command += ["--context-length", str(plan.context)]
        command += ["--max-running-requests", str(plan.concurrency)]
        command += ["--random-seed", str(plan.seed), "--sampling-defaults", "openai"]
        command += ["--enable-metrics", "--enable-cache-report"]
        if not plan.prefix_cache:
            command.append("--disable-radix-cache")
        return command + speculation(plan.arm) + given.words(plan.arm, "args_extra")

    def files(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def environment(self, plan: ServerPlan) -> dict[str, str]:
        """None."""
        return {}

    def python(self, arm: ArmSpec) -> str:
        """The arm's, else this one."""
        return given.interpreter(arm)

    def version(self, python: str) -> str:
        """Of sglang."""
        return package_version(python, "sglang", "type: pip install sglang")


def speculation(arm: ArmSpec) -> list[str]:
    """The words of the command line that make it speculate; none for plain."""
    if arm.plain:
        return []
    options = arm.drafter_options
    words = ["--speculative-algorithm", ALGORITHMS[arm.drafter]]
    if options.get("model"):
        words += ["--speculative-draft-model-path", str(options["model"])]
    if options.get("revision"):
        words += ["--speculative-draft-model-revision", str(options["revision"])]
    drafts = arm.k
    if arm.drafter in ("draft_model", "eagle", "eagle3", "mtp"):
        # Left out, it may choose trees for some models.
        words += ["--speculative-num-steps", str(arm.k)]
        words += ["--speculative-eagle-topk", str(_branches(arm))]
        drafts = int(str(options.get("tree_tokens", arm.k)))
    words += ["--speculative-num-draft-tokens", str(drafts + 1)]
    if arm.drafter == "ngram":
        words += ["--speculative-ngram-max-bfs-breadth", str(_branches(arm))]
        if options.get("match"):
            words += ["--speculative-ngram-match-type", str(options["match"])]
        if options.get("max_n"):
            words += ["--speculative-ngram-max-trie-depth", str(options["max_n"])]
    if arm.rule == "threshold":
        words += ["--speculative-accept-threshold-single", str(arm.rule_options["single"])]
        words += ["--speculative-accept-threshold-acc", str(arm.rule_options["acc"])]
    if arm.rule == "rejection":
        words.append("--speculative-use-rejection-sampling")
    return words


def _branches(arm: ArmSpec) -> int:
    key = "breadth" if arm.drafter == "ngram" else "topk"
    return int(str(arm.drafter_options.get(key, 1)))


LAUNCHER = Sglang()
