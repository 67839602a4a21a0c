"""Penalties, minimum length, mixed temperatures and seeds inside the loop (B11, B12, B14)."""

import pytest

from specbench.core.request import RequestKey, Stops
from specbench.core.trace import Finish
from specbench.drafters.none import NoDrafter
from specbench.measure.requests import request_seed
from specbench.metrics.identities import violations
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.tables import PlannedDrafter, decode, random_table, table_draft
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

SAMPLED_RULES = [REJECTION, TARGET_MATCH]
B12_LOGITS = (2.0, 1.9, 0.95)
B12_OUTPUT = [0, 1, 0, 1, 0, 2, 1, 0]


def constant(logits):
    return lambda tokens: logits


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("rule", [GREEDY, *SAMPLED_RULES])
@pytest.mark.parametrize("draft", ["right", "zeros", "model"])
def test_b12_every_position_sees_the_counts_before_it(k, rule, draft):
    drafters = {
        "right": lambda pool: PlannedDrafter(lambda tokens: B12_OUTPUT[len(tokens) - 1 :]),
        "zeros": lambda pool: PlannedDrafter(lambda tokens: [0] * 9),
        "model": table_draft(constant(B12_LOGITS), 3),
    }
    asked = request([0], 8, frequency_penalty=0.5)
    (row,) = decode([asked], constant(B12_LOGITS), drafters[draft], rule, k)
    assert row.trace.output_ids == B12_OUTPUT
    if draft != "zeros":
        # A draft that penalises like the target, position by position, is never wrong.
        assert row.trace.steps.accepted == row.trace.steps.verified


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("k", [0, 1, 3, 5])
def test_min_length_counts_tokens_not_steps(k, temperature):
    asked = request(
        [0], 20, stops=Stops((2,)), minimum=4, temperature=temperature, presence_penalty=0.01
    )
    eager = constant((1.0, 0.5, 40.0))
    (row,) = decode([asked], eager, lambda pool: PlannedDrafter(lambda t: [2] * 9), REJECTION, k)
    output = row.trace.output_ids
    assert len(output) == 5
    assert 2 not in output[:4]
    assert output[4] == 2
    assert row.trace.finish is Finish.EOS


@pytest.mark.parametrize("rule", SAMPLED_RULES)
@pytest.mark.parametrize("drafter", ["plain", "one_hot", "dense"])
def test_b14_greedy_and_sampled_rows_live_in_one_batch(rule, drafter):
    table = constant([-0.6931, -1.2040, -1.6094])  # log of .5, .3, .2
    drafters = {
        "plain": lambda pool: NoDrafter(),
        "one_hot": lambda pool: PlannedDrafter(lambda tokens: [1, 0, 2]),
        "dense": table_draft(constant([0.0, 0.3, 0.2]), 3),
    }
    seen = set()
    for seed in range(12):
        asked = [request([0], 25, temperature=t, seed=seed) for t in (0.0, 1.0, 0.0)]
        first, middle, last = decode(asked, table, drafters[drafter], rule, 3)
        assert set(first.trace.output_ids) == set(last.trace.output_ids) == {0}
        seen |= set(middle.trace.output_ids)
    assert seen == {0, 1, 2}


def outputs(asked, rule=REJECTION, drafter_of=lambda pool: NoDrafter(), k=0):
    rows = decode(asked, constant([0.0] * 4), drafter_of, rule, k)
    return [row.trace.output_ids for row in rows]


@pytest.mark.parametrize("rule", SAMPLED_RULES)
def test_b11_a_seeded_request_ignores_its_neighbours(rule):
    drafter_of = table_draft(random_table(1, 4), 4)
    asked = request([0], 8, temperature=1.0, seed=3)
    neighbours = [request([1], 8, temperature=1.0, seed=s) for s in (77, 78)]
    (alone,) = outputs([asked], rule, drafter_of, 3)
    assert outputs([neighbours[0], asked, neighbours[1]], rule, drafter_of, 3)[1] == alone


def test_b11_ten_seeds_give_ten_outputs():
    asked = [request([0], 8, temperature=1.0, seed=s) for s in range(10)]
    assert len(set(map(tuple, outputs(asked)))) == 10


def test_b11_ten_repeats_of_one_item_differ_under_one_run_seed():
    seeds = [request_seed(1, RequestKey("s", "item", 0, 1.0, repeat)) for repeat in range(10)]
    asked = [request([0], 8, temperature=1.0, seed=s) for s in seeds]
    assert len(set(map(tuple, outputs(asked)))) == 10


def test_b11_temperature_zero_is_the_same_for_all_seeds():
    asked = [request([0], 8, seed=s) for s in range(10)]
    assert len(set(map(tuple, outputs(asked, GREEDY)))) == 1


@pytest.mark.parametrize("drafter", ["one_hot", "dense"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_target_match_repeats_plain_sampling_token_for_token(drafter, temperature):
    table = random_table(5, 6)
    drafter_of = {
        "one_hot": lambda pool: PlannedDrafter(lambda tokens: [tokens[-1], 0, 3, 1]),
        "dense": table_draft(random_table(6, 6), 6),
    }[drafter]
    asked = [request([s, 2], 24, temperature=temperature, seed=s) for s in range(4)]
    plain = decode(asked, table, lambda pool: NoDrafter(), TARGET_MATCH, 0)
    drafted = decode(asked, table, drafter_of, TARGET_MATCH, 4)
    assert [r.trace.output_ids for r in drafted] == [r.trace.output_ids for r in plain]
    assert sum(sum(r.trace.steps.accepted) for r in drafted) > 0


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("count", [1, 2, 30])
def test_identities_hold_at_every_step(rule, k, count):
    asked = [request([s], count, temperature=t, seed=s) for s in range(4) for t in (0.0, 1.0)]
    rows = decode(asked, random_table(1, 5), table_draft(random_table(2, 5), 5), rule, k)
    for row in rows:
        assert violations(row.trace, k_max=k) == []
        assert len(row.trace.output_ids) == count
        steps, evidence = row.trace.steps, row.trace.evidence
        assert row.step == len(steps)
        for s in range(len(steps)):
            assert steps.verified[s] == min(k, count - 1 - sum(steps.committed[:s]) - 1)
            assert steps.committed[s] == steps.accepted[s] + 1
        assert evidence.position == list(range(count))
