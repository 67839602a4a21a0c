"""Above temperature 0: outputs have the target's law, and a small lenience would be noticed.

The target is a Markov chain whose hidden state names its last token, and the heads know its law:
head i says how likely every token is i + 2 places on. So acceptance is what theory says of the best
heads there can be.
"""

import pytest
import torch
from scipy import stats

from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.parallel import line
from specbench.fidelity.columns import columns
from specbench.fidelity.verdict import Status, judge
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.drafters.output_law import Lenient, mild_law, p_of_outputs
from tests.drafters.parallel_loops import decode_markov, markov_heads
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

FORK = TreeShape.from_paths([[0], [1], [0, 0], [0, 1], [1, 0]])
ARMS = [(MULTI_ROUND, FORK), (TRAVERSAL, FORK), (REJECTION, line(2))]
START, LENGTH, SAMPLES = 0, 5, 1200


def asked(count, length, size):
    """Requests at temperature 1, each token of the vocabulary as often as a prompt."""
    return [
        request([i % size], length, item=f"i{i}", temperature=1.0, seed=i) for i in range(count)
    ]


def p_of_sequences(rule, shape):
    """Outputs of at least two steps each."""
    law = mild_law(3)
    requests = [request([START], LENGTH, temperature=1.0, seed=seed) for seed in range(SAMPLES)]
    return p_of_outputs(decode_markov(requests, law, markov_heads(law, 2), shape, rule), law, START)


@pytest.mark.parametrize(("rule", "shape"), ARMS)
def test_whole_outputs_have_the_law_of_the_target(rule, shape):
    assert p_of_sequences(rule, shape) > 1e-3


@pytest.mark.parametrize(("rule", "shape"), ARMS)
def test_a_lenience_of_a_fifth_changes_that_law(rule, shape):
    assert p_of_sequences(Lenient(rule), shape) < 1e-6


def verdict(rule, shape):
    law = mild_law(8)
    rows = decode_markov(asked(100, 40, 8), law, markov_heads(law, 2), shape, rule)
    return judge({"arm": columns([row.trace for row in rows])})["arm"]


@pytest.mark.parametrize(("rule", "shape"), ARMS)
def test_the_tests_of_a_run_pass_and_find_that_lenience_in_as_many_tokens(rule, shape):
    assert verdict(rule, shape).status is Status.PASSED
    assert verdict(Lenient(rule), shape).status is Status.FAILED


def test_the_first_choice_is_kept_as_often_as_theory_says():
    # All rows are the same: the likeliest token comes next in half of all places.
    law = torch.tensor([[0.5, 0.25, 0.25]] * 3)
    rows = decode_markov(asked(60, 40, 3), law, markov_heads(law, 1), line(1), MULTI_ROUND)
    steps = [
        (v, a)
        for row in rows
        for v, a in zip(row.trace.steps.verified, row.trace.steps.accepted, strict=True)
    ]
    drafted = sum(v for v, _ in steps)
    accepted = sum(a for _, a in steps)
    assert drafted > 1000
    assert stats.binomtest(accepted, drafted, 0.5).pvalue > 1e-3
