"""Block verification: the published accept lengths, and never fewer tokens than rejection."""

import pytest

from specbench.laws.chains import chain_law
from specbench.laws.rules import RuleSampler
from specbench.laws.tables import SAMPLED, THREE_TARGET
from specbench.verify.block import RULE as BLOCK
from specbench.verify.rejection import RULE as REJECTION
from tests.laws.laws_of import kept, law_of


@pytest.mark.parametrize("table", SAMPLED, ids=lambda table: table.name)
def test_it_never_accepts_less_than_rejection(table):
    block, rejection = (chain_law(RuleSampler(rule), table) for rule in (BLOCK, REJECTION))
    assert bool((block.mean_tokens() >= rejection.mean_tokens() - 1e-6).all())


@pytest.mark.parametrize(
    ("p", "q", "k", "lengths"),
    [
        ([1 / 3, 2 / 3], [2 / 3, 1 / 3], 2, [1 / 3, 1 / 9, 5 / 9]),
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 1, [0.3, 0.7]),
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 2, [0.3, 0.15, 0.55]),
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 3, [0.3, 0.15, 0.08, 0.47]),
    ],
)
def test_accepted_lengths_are_the_published_ones(p, q, k, lengths):
    """Context-free rows, ALGORITHMS 1.6."""
    law = law_of(BLOCK, p, q, k)
    assert [kept(law, n) for n in range(k + 1)] == pytest.approx(lengths, abs=1e-6)


@pytest.mark.parametrize(
    ("k", "block", "token_wise"), [(1, 0.7, 0.7), (2, 1.25, 1.19), (3, 1.72, 1.533)]
)
def test_mean_accepted_lengths_are_the_published_ones(k, block, token_wise):
    for rule, mean in ((BLOCK, block), (REJECTION, token_wise)):
        law = law_of(rule, [0.5, 0.3, 0.2], [0.2, 0.5, 0.3], k)
        assert float(law.mean_tokens()[0]) == pytest.approx(1 + mean, abs=1e-6)


def test_equal_rows_accept_everything():
    law = law_of(BLOCK, THREE_TARGET, THREE_TARGET, 3)
    assert kept(law, 3) == pytest.approx(1.0, abs=1e-6)
