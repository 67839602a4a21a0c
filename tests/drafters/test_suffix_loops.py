"""Suffix decoding in the real loop: every accepted length, and what earlier answers give."""

import random
from collections import Counter

import pytest

from specbench.core.trace import Finish
from specbench.drafters.none import NoDrafter
from specbench.drafters.suffix import SuffixDrafter
from specbench.drafters.suffix_match import Bounds
from specbench.metrics.identities import violations
from specbench.models.kv_pool import KVPool
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.output_law import Lenient, mild_law, p_of_outputs
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.families import VOCABULARY
from tests.tables import decode
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

K = 4
PROMPTS = [[(7 * i + 3 * j) % 61 + 1 for j in range(1 + i % 4)] for i in range(10)]
BOUNDS = Bounds(24, 1.0, 0.1)
LONG = Bounds(24, 8.0, 0.0)
"""Drafts as long as the budget allows behind any match."""


def outputs(rows):
    return {row.request.key.item: row.trace.output_ids for row in rows}


def plain(requests):
    return outputs(decode_packed(requests, lambda *_: NoDrafter(), TARGET_MATCH, 0)[0])


def half_right(texts, seed=0):
    """A drafter that has seen each text in pieces, each wrong from a place drawn at random."""
    chance = random.Random(seed)
    drafter = SuffixDrafter(LONG, answers=10_000)
    for text in texts:
        for at in range(2, len(text)):
            # Pieces overlap, and a wrong one ends a draft that others would continue.
            right = text[at - 2 : at + chance.choices(range(K + 1), [1, 1, 1, 1, 3])[0]]
            piece = [*right, (text[at] + 1 + at % 7) % VOCABULARY]
            row = sequence(request([5], 40, item="pieces"), KVPool(1, 64, None, None))
            for token in piece:
                row.append(token)
            row.finish = Finish.LENGTH
            drafter.release([row])
    return drafter


@pytest.mark.parametrize(
    ("rule", "temperature"), [(GREEDY, 0.0), (REJECTION, 0.0), (TARGET_MATCH, 0.8)]
)
def test_output_equals_plain_at_every_accepted_length(rule, temperature):
    requests = asked(60, temperature, PROMPTS)
    expected = plain(requests)
    texts = [[*one.token_ids, *expected[one.key.item]] for one in requests]
    rows, target, _ = decode_packed(requests, lambda *_: half_right(texts), rule, K, check=True)
    assert outputs(rows) == expected
    assert target.checks == sum(len(row.trace.steps) for row in rows)
    lengths = Counter()
    for row in rows:
        assert violations(row.trace, k_max=K) == []
        lengths.update(row.trace.steps.accepted)
    assert min(lengths[length] for length in range(K + 1)) >= 20, lengths


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_batch_decodes_as_its_requests_alone(temperature):
    requests = asked(30, temperature)

    def steps(some):
        rows, _, _ = decode_packed(some, lambda *_: SuffixDrafter(BOUNDS), REJECTION, K)
        return [(r.trace.output_ids, r.trace.steps.verified, r.trace.steps.accepted) for r in rows]

    assert steps(requests) == [steps([one])[0] for one in requests]


def test_answers_of_other_items_are_found_and_those_of_the_same_are_not():
    first, second = asked(40, prompts=[[3, 1, 4], [3, 1, 4]])
    expected = plain([first])["item-0"]
    drafter = SuffixDrafter(BOUNDS, answers=10)

    def steps(one):
        (row,), _, _ = decode_packed([one], lambda *_: drafter, GREEDY, K)
        drafter.release([row])
        assert row.trace.output_ids == expected
        return row.trace.steps

    unknown = steps(first)
    assert steps(first).verified == unknown.verified
    known = steps(second)
    assert sum(known.accepted) > sum(unknown.accepted)
    # From the third token on the match is as long as the draft may be: all is right.
    assert len(known) < 40 / 3
    drafter.reset()
    assert steps(second).verified == unknown.verified


@pytest.mark.parametrize(("answers", "caught"), [(0, False), (50, False), (0, True), (50, True)])
def test_sequences_have_the_law_of_the_target_unless_acceptance_is_lenient(answers, caught):
    law = mild_law(3)
    lines = law.log().tolist()
    requests = [
        request([0, 1, 2, 0], 5, item=f"i{i}", temperature=1.0, seed=i) for i in range(1200)
    ]
    rule = Lenient(REJECTION) if caught else REJECTION

    def drafter(pool):
        made = SuffixDrafter(Bounds(24, 2.0, 0.0), answers)
        others = [request([0], 6, item="other", temperature=1.0, seed=i) for i in range(20)]
        made.release(decode(others, lambda t: lines[t[-1]], lambda _: NoDrafter(), rule, 0))
        return made

    rows = decode(requests, lambda t: lines[t[-1]], drafter, rule, 3)
    assert sum(sum(row.trace.steps.verified) for row in rows) > 1000
    p = p_of_outputs(rows, law, 0)
    assert p < 1e-6 if caught else p > 1e-3
