"""Drafts from features at temperature 1: the output is the target's, and lenience would be seen.

The target looks at its last token alone, so that rows near its own can be drafted at once.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.decoding.shapes.named import named
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.fidelity.columns import columns
from specbench.fidelity.verdict import Status, judge
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.rejection import RULE as REJECTION
from tests.drafters.feature_loops import building
from tests.drafters.packed_loops import asked, decode_packed
from tests.drafters.toy_head import ToyHead
from tests.models.families import VOCABULARY, build, reference
from tests.planting import LikeTarget, Steered

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = [[(7 * i + 3 * j) % VOCABULARY for j in range(1 + i % 4)] for i in range(32)]
NEW_TOKENS = 48
ARMS = {
    "chain": (lambda rows_of: Chain(rows_of, True), REJECTION, 4),
    "static": (lambda rows_of: Static(named("eagle_25"), rows_of, True), MULTI_ROUND, 5),
    "dynamic": (lambda rows_of: Dynamic(16, 4, rows_of), MULTI_ROUND, 4),
}
HEADS = {
    "all-tokens": ToyHead(),
    "few-tokens": ToyHead(target_ids=torch.arange(VOCABULARY)[torch.arange(VOCABULARY) % 3 > 0]),
}


def forgetful():
    """A Llama without attention."""
    model = build("llama")
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
    return model


class Lenient:
    """A rule that reads accept numbers times .8."""

    def __init__(self, rule):
        self._rule = rule
        self.info = rule.info

    def __getattr__(self, name):
        return getattr(self._rule, name)

    def __call__(self, tree, trials, rows, laws, states, uniforms):
        smaller = replace(uniforms, accept=0.8 * uniforms.accept)
        return self._rule(tree, trials, rows, laws, states, smaller)


def verdict(arm, head, lenient):
    growth, rule, k = ARMS[arm]
    build_one, target = building(HEADS[head], growth, VOCABULARY), forgetful()
    logits = reference(forgetful())
    table = torch.cat([logits([token]) for token in range(VOCABULARY)])

    def near(row, budget):
        return LikeTarget(lambda tokens: table[tokens[-1:]], row, 0.8)

    rows, _, _ = decode_packed(
        asked(NEW_TOKENS, 1.0, PROMPTS),
        lambda pool, _: Steered(build_one(pool), near),
        Lenient(rule) if lenient else rule,
        k,
        target,
    )
    assert sum(sum(row.trace.steps.accepted) for row in rows) > 500
    return judge({arm: columns([row.trace for row in rows])})[arm]


@pytest.mark.parametrize(
    ("arm", "head"), [*((arm, "all-tokens") for arm in ARMS), ("chain", "few-tokens")]
)
def test_outputs_are_the_targets_and_lenience_is_found_in_as_many_tokens(arm, head):
    exact, lenient = verdict(arm, head, False), verdict(arm, head, True)
    assert exact.n == lenient.n == len(PROMPTS) * NEW_TOKENS
    assert exact.status is Status.PASSED, str(exact)
    assert lenient.status is Status.FAILED, str(lenient)
