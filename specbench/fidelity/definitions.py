"""What every fidelity metric means: the text in table headers and in docs/metrics.md."""

from __future__ import annotations

from specbench.core.definition import Definition

IDENTITY, FIDELITY, PRICE = "greedy_identity", "fidelity", "price"

_TABLE = (
    Definition(
        IDENTITY,
        "temperature 0: outputs identical to plain's; tie: first difference with a top-2 margin "
        "below the measured rounding error, the other token being the runner-up; mismatch: any "
        "other difference, length included",
        "requests",
    ),
    Definition(
        FIDELITY,
        "temperature > 0: is every emitted token drawn from the target? p: adjusted over the tests "
        "of a cell (Bonferroni) and over cells (Holm); log10_e: largest value of the anytime-valid "
        "e-process; detectable: smallest total variation per token that some test would have found "
        "with 90 % power; outside: emitted tokens of target probability 0",
        "1",
    ),
    Definition(
        PRICE,
        "temperature > 0: distance of the acceptance rule's output law from the target per "
        "position, before the draft is drawn: total variation, KL(rule || target) and entropy of "
        "the rule minus the target's; 0 by proof for lossless rules, computed from the two rows "
        "for rules that judge token by token, else estimated from below at sampled steps",
        "1, nats",
    ),
)

DEFINITIONS = {definition.name: definition for definition in _TABLE}
