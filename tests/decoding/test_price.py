"""Prices of lossy rules: the recorded law's distances against enumeration over drafts and coins."""

import math

import numpy as np
import pytest

from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.listed import ListedRule
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.threshold import threshold
from specbench.verify.typical import RULE as TYPICAL
from tests.tables import PlannedDrafter, decode, random_table, table_draft
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

V, K, COUNT = 5, 2, 16
TARGET, DRAFT = random_table(21, V), random_table(22, V)


def softmax(logits):
    weights = np.exp(np.array(logits, dtype=np.float64))
    return weights / weights.sum()


def lenient_law(p, q, lenience=0.7):
    """Sum over the drafted token: kept, or replaced from the residual."""
    law = np.zeros(V)
    residual = np.maximum(p - lenience * q, 0)
    for x in range(V):
        kept = min(1.0, p[x] / (lenience * q[x]))
        law[x] += q[x] * kept
        law += q[x] * (1 - kept) * (residual / residual.sum() if residual.sum() else 0)
    return law


def typical_law(p, q, epsilon=0.25, delta=0.6):
    entropy = -(p * np.log(p + 1e-5)).sum()
    bar = min(epsilon, delta * math.exp(-entropy))
    law = np.zeros(V)
    for x in range(V):
        law[x if p[x] > bar else p.argmax()] += q[x]
    return law


def threshold_law(p, q, single=0.6, acc=0.8):
    law = np.zeros(V)
    for x in range(V):
        kept = 1.0 if p[x] >= single else min(1.0, p[x] / acc)
        rest = np.where(np.arange(V) == x, 0, p)
        law[x] += q[x] * kept
        law += q[x] * (1 - kept) * rest / rest.sum()
    return law


CASES = [
    (LENIENT, {"lenience": 0.7}, lenient_law, lambda p: p),
    (TYPICAL, {"epsilon": 0.25, "delta": 0.6}, typical_law, lambda p: np.eye(V)[p.argmax()]),
    (THRESHOLD, {"single": 0.6, "acc": 0.8}, threshold_law, lambda p: p),
]


def unit(token):
    return np.eye(V)[token]


def plan(tokens):
    return [(tokens[-1] + 1) % V, (tokens[-1] + 3) % V]


@pytest.mark.parametrize(("rule", "options", "law", "undrafted"), CASES)
@pytest.mark.parametrize("sampled", [True, False])
def test_recorded_distances_are_those_of_the_enumerated_law(rule, options, law, undrafted, sampled):
    drafter = table_draft(DRAFT, V) if sampled else lambda pool: PlannedDrafter(plan)
    asked = [request([s], COUNT, temperature=1.0, seed=s) for s in range(3)]
    drafted_positions = 0
    for row in decode(asked, TARGET, drafter, rule.configure(options), K):
        trace, evidence = row.trace, row.trace.evidence
        assert evidence.rule_tv[0] is None  # the prefill's token is the target's own
        done, tokens = 1, [*row.request.token_ids, *trace.output_ids]
        for verified, committed in zip(trace.steps.verified, trace.steps.committed, strict=True):
            for offset in range(committed):
                context = tokens[: 1 + done + offset]
                p = softmax(TARGET(tuple(context)))
                expected = undrafted(p)
                if offset < verified:
                    drafted_positions += 1
                    q = unit(plan(tokens[: 1 + done])[offset])
                    q = softmax(DRAFT(tuple(context))) if sampled else q
                    # A unit draft has zeros, which only the enumeration's ratio minds.
                    expected = law(p, np.maximum(q, 1e-300))
                at = done + offset
                tv = abs(expected - p).sum() / 2
                kl = sum(a * math.log(a / b) for a, b in zip(expected, p, strict=True) if a > 1e-12)
                entropy = -sum(a * math.log(a) for a in expected if a > 1e-12)
                assert evidence.rule_tv[at] == pytest.approx(tv, abs=1e-5)
                assert evidence.rule_kl[at] == pytest.approx(kl, abs=1e-5)
                assert evidence.rule_entropy[at] == pytest.approx(entropy, abs=1e-5)
            done += committed
    assert drafted_positions > 10


def test_lossless_rules_record_no_price():
    (row,) = decode(
        [request([1], COUNT, temperature=1.0)], TARGET, table_draft(DRAFT, V), REJECTION, K
    )
    assert row.trace.evidence.rule_tv == [None] * COUNT


def test_b7_a_draft_that_typical_always_keeps_costs_what_the_target_misses():
    p = [0.5, 0.3, 0.2]
    rule = TYPICAL.configure({"epsilon": 0.3, "delta": 0.6})
    drafter = lambda pool: PlannedDrafter(lambda tokens: [1, 1])  # noqa: E731
    (row,) = decode(
        [request([0], 9, temperature=1.0)], lambda t: [math.log(x) for x in p], drafter, rule, K
    )
    evidence = row.trace.evidence
    kept = [tv for tv, d in zip(evidence.rule_tv, evidence.drafted, strict=True) if d]
    assert kept == pytest.approx([0.7] * len(kept), abs=1e-6)


def test_a_rule_without_a_law_is_estimated_close_to_the_known_price():
    """One draft token per step: the first position's law is the whole truth."""
    p = [0.5, 0.3, 0.2]
    known = THRESHOLD.configure({"single": 1.0, "acc": 0.6})
    hidden = ListedRule(THRESHOLD.info, threshold).configure({"single": 1.0, "acc": 0.6})
    table = lambda t: [math.log(x) for x in p]  # noqa: E731
    drafter = lambda pool: PlannedDrafter(lambda tokens: [0])  # noqa: E731
    asked = [request([s], 40, temperature=1.0, seed=s) for s in range(60)]
    exact, guessed = [], []
    for rule, values in ((known, exact), (hidden, guessed)):
        for row in decode(asked, table, drafter, rule, 1):
            evidence = row.trace.evidence
            values += [tv for tv, d in zip(evidence.rule_tv, evidence.drafted, strict=True)
                       if d and tv is not None]  # fmt: skip
            if rule is hidden:
                assert evidence.rule_kl == [None] * len(evidence)
    # out(0) = .5 / .6, so the total variation is 1/3 at every drafted position.
    assert exact == pytest.approx([1 / 3] * len(exact), abs=1e-6)
    error = math.sqrt(0.25 / 64 / len(guessed))
    assert np.mean(guessed) == pytest.approx(1 / 3, abs=5 * error)
    assert len(guessed) > 50
