"""Synthetic acceptance: the number of kept drafts has exactly the law that was asked for."""

from collections import Counter
from itertools import pairwise, product
from math import prod, sqrt

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Lossless, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.errors import UsageError
from specbench.metrics.identities import violations
from specbench.verify.synthetic import RULE
from tests.tables import PlannedDrafter, decode, random_table, table_draft
from tests.toys import request

TINY = 1e-12
"""Half the width around a threshold that the integration does not look at."""

ROWS = [[0.1, 0.2, 0.7], [0.3, 0.6, 0.1], [0.5, 0.25, 0.25]]


def judge(options, k, numbers, lines=None, ids=None, temperatures=(0.0,), residual=0.0, bonus=0.0):
    """Verdicts for accept numbers [B][K], on rows [K + 1][V] that are the same for all."""
    lines = lines or [[1.0, 0.0]] * (k + 1)
    batch = len(numbers)
    tree = chain(torch.tensor([ids or [1] * k] * batch), (k,) * batch)
    sampling = [Sampling(t) for t in temperatures for _ in lines] * (batch // len(temperatures))
    logits = torch.tensor(lines).log().repeat(batch, 1)
    index = torch.arange(len(logits)).view(batch, -1)
    one = torch.ones(batch, dtype=torch.float64)
    accept = torch.tensor(numbers, dtype=torch.float64).view(batch, k)
    uniforms = Uniforms(accept, one * residual, one * bonus, torch.zeros(batch, k + 1).double())
    rule = RULE.configure(options, k)
    trials = chain_trials(tree, TrialKind.ONE_HOT)
    return rule(tree, trials, TargetRows(logits, index, sampling), OneHotLaws(), [None], uniforms)[
        0
    ]


def cells(threshold):
    """Points at both ends of the two cells of a uniform number, with half their widths."""
    below = [(0.0, threshold / 2), (threshold - TINY, threshold / 2)] if threshold > 0 else []
    low = threshold + TINY if threshold > 0 else 0.0
    above = [(low, (1 - threshold) / 2), (1 - TINY, (1 - threshold) / 2)]
    return below + (above if threshold < 1 else [])


def reached(options, k, rates, temperature):
    """Chance that drafts 1 to d are kept, d = 1 .. K, by integration over all accept numbers.

    The cells end where rates r_d / r_{d-1} change the verdict. A rule with any other threshold
    differs at an end of a cell, so the sum would not come out.
    """
    thresholds = [b / a if a else 0.0 for a, b in pairwise([1.0, *rates])]
    points = list(product(*map(cells, thresholds)))
    verdict = judge(options, k, [[u for u, _ in p] for p in points], temperatures=(temperature,))
    mass = [prod(width for _, width in p) for p in points]
    assert sum(mass) == pytest.approx(1.0)
    counts = verdict.n_accepted.tolist()
    return [sum(m for m, n in zip(mass, counts, strict=True) if n >= d) for d in range(1, k + 1)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("options", "k", "rates"),
    [
        ({"length": 3.6}, 5, [1, 1, 0.6, 0, 0]),  # the published schedule
        ({"length": 1}, 3, [0, 0, 0]),
        ({"length": 1.25}, 3, [0.25, 0, 0]),
        ({"length": 3}, 3, [1, 1, 0]),
        ({"length": 4}, 3, [1, 1, 1]),
        ({"rates": [0.9, 0.6, 0.3]}, 3, [0.9, 0.6, 0.3]),
        ({"rates": [0.8, 0.8, 0, 0]}, 4, [0.8, 0.8, 0, 0]),
        ({"rates": [1, 0.5, 0.5, 0.1]}, 2, [1, 0.5]),
        ({"rates": [0.7, 0.1, 1e-3, 1e-3]}, 4, [0.7, 0.1, 1e-3, 1e-3]),
        ({"rate": 0.7}, 3, [0.7, 0.49, 0.343]),
        ({"rate": 0}, 2, [0, 0]),
        ({"rate": 1}, 2, [1, 1]),
    ],
)
def test_the_number_kept_has_the_law_asked_for(options, k, rates, temperature):
    found = reached(options, k, rates, temperature)
    assert found == pytest.approx(rates, abs=1e-9)
    if "length" in options:
        assert 1 + sum(found) == pytest.approx(options["length"], abs=1e-9)


def test_a_wrong_threshold_would_be_seen():
    asked = [0.9, 0.6, 0.3]
    assert reached({"rates": [0.9, 0.601, 0.3]}, 3, asked, 0.0) != pytest.approx(asked, abs=1e-3)
    # Taken for conditional chances, the same numbers keep fewer.
    assert reached({"rates": [0.9, 0.54, 0.162]}, 3, asked, 0.0) != pytest.approx(asked, abs=1e-3)


def test_at_temperature_zero_the_argmax_follows():
    for numbers, token, kind in (
        ([0.9, 0], 2, RECOVERED),
        ([0, 0.9], 1, RECOVERED),
        ([0, 0], 0, BONUS),
    ):
        verdict = judge({"rate": 0.5}, 2, [numbers], ROWS, residual=0.99, bonus=0.99)
        assert (verdict.next_token.item(), verdict.kind.item()) == (token, kind)


@pytest.mark.parametrize(("numbers", "place"), [([0.9, 0], 0), ([0, 0.9], 1), ([0, 0], 2)])
def test_above_it_the_target_is_drawn_with_a_number_of_its_own(numbers, place):
    line = ROWS[place]
    borders = [0.0, line[0], line[0] + line[1], 1.0]
    for token, (low, high) in enumerate(pairwise(borders)):
        for u in (low + 1e-6, high - 1e-6):
            own = {"bonus": u} if place == 2 else {"residual": u}
            verdict = judge({"rate": 0.5}, 2, [numbers], ROWS, temperatures=(1.0,), **own)
            assert verdict.next_token.item() == token


def test_greedy_and_sampled_requests_share_a_batch():
    verdict = judge(
        {"rate": 1}, 2, [[0.5, 0.5]] * 2, ROWS, temperatures=(0.0, 1.0), bonus=0.99, residual=0.99
    )
    assert verdict.next_token.tolist() == [0, 2]
    assert verdict.n_accepted.tolist() == [2, 2]


@pytest.mark.parametrize("strange", [-1, 3, 99])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_holes_and_ids_out_of_range_are_never_kept(strange, temperature):
    for ids, kept in (([strange, 1], 0), ([1, strange], 1)):
        verdict = judge({"rate": 1}, 2, [[0.0, 0.0]], ROWS, ids, (temperature,))
        assert verdict.n_accepted.item() == kept
        assert verdict.kind.item() == RECOVERED
        assert 0 <= verdict.next_token.item() < 3


def wrong(tokens):
    """Five drafts that are never the argmax of ``sure``."""
    return [1 + (len(tokens) + ahead) % 3 for ahead in range(5)]


def sure(tokens):
    """The target is sure of token 0, so that nothing else would be kept by its own merit."""
    return [0.0, -50.0, -50.0, -50.0]


def looped(options, temperature, seeds, count=62):
    asked = [request([0], count, temperature=temperature, seed=seed) for seed in seeds]
    rule = RULE.configure(options, 5)
    return decode(asked, sure, lambda pool: PlannedDrafter(wrong), rule, 5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_loop_keeps_as_many_as_asked(temperature):
    rows = looped({"length": 3.6}, temperature, range(40))
    kept = Counter()
    for row in rows:
        steps = row.trace.steps
        kept.update(n for n, k in zip(steps.accepted, steps.verified, strict=True) if k == 5)
        assert violations(row.trace, k_max=5) == []
    # Two for certain, a third with chance 0.6; five standard deviations of the count.
    assert set(kept) == {2, 3}
    total = sum(kept.values())
    assert total > 500
    assert abs(kept[3] - 0.6 * total) < 5 * sqrt(total * 0.6 * 0.4)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_kept_tokens_are_the_drafts_whatever_the_target_says(temperature):
    (row,) = looped({"rate": 1}, temperature, [3], count=13)
    expected = [0]
    for _ in range(2):
        expected += [*wrong([0, *expected]), 0]
    assert row.trace.output_ids == expected
    (none,) = looped({"rate": 0}, temperature, [3], count=13)
    assert none.trace.output_ids == [0] * 13
    assert none.trace.steps.accepted == [0] * 12


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_coins_follow_the_seed_of_the_request_and_not_its_neighbours(temperature):
    together = [row.trace.steps.accepted for row in looped({"rate": 0.5}, temperature, range(6))]
    assert len({tuple(line) for line in together}) == 6
    for seed in (0, 4):
        (alone,) = looped({"rate": 0.5}, temperature, [seed])
        assert alone.trace.steps.accepted == together[seed]


@pytest.mark.parametrize("sampled", [True, False])
def test_drafts_of_a_model_are_judged_by_the_same_coins(sampled):
    drafter_of = table_draft(random_table(2, 4), 4, sampled)
    asked = [request([0], 62, temperature=1.0, seed=seed) for seed in range(3)]
    rows = decode(asked, random_table(1, 4), drafter_of, RULE.configure({"rate": 0.5}, 5), 5)
    planned = looped({"rate": 0.5}, 1.0, range(3))
    for row, other in zip(rows, planned, strict=True):
        assert row.trace.steps.accepted == other.trace.steps.accepted


def test_its_output_means_nothing_whatever_its_parameters():
    for options in ({}, {"length": 1}, {"rate": 0}, {"rate": 1}, {"rates": [1, 1]}):
        assert RULE.info.lossless_with(options) is Lossless.MEANINGLESS
    assert RULE.info.random_at_zero
    rule = RULE.configure({"rate": 0.5}, 5)
    assert rule.admit([1, 2]) is None


@pytest.mark.parametrize(
    ("options", "k", "message"),
    [
        ({}, 5, r"exactly one of rates, length and rate; given: none\s+write rule_options"),
        ({"length": 2, "rate": 0.5}, 5, r"given: length = 2 and rate = 0.5"),
        ({"rates": [0.5, 0.6]}, 2, r"rates = \[0.5, 0.6\]: number 2, 0.6, is larger than 0.5"),
        ({"rates": [0.5, 0.4]}, 3, r"\[0.5, 0.4\] has 2 numbers for k = 3\s+give 3 numbers"),
        ({"rates": [0.5, 1.4]}, 2, r"rates = \[0.5, 1.4\] is out of range"),
        ({"rates": 0.5}, 1, r"rates = 0.5 is out of range"),
        ({"length": 0.5}, 5, r"length = 0.5 is out of range"),
        ({"length": 7}, 5, r"length = 7 is more than the 6 tokens .* k = 5\s+give .* \[1, 6\]"),
        ({"rate": 1.5}, 5, r"rate = 1.5 is out of range"),
        ({"acceptance": 0.5}, 5, r"no parameter 'acceptance'"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, k, message):
    with pytest.raises(UsageError, match=message):
        RULE.configure(options, k)


def test_without_a_draft_length_only_what_needs_it_is_not_checked():
    RULE.configure({"length": 99})
    # Behind the last rate nothing is kept.
    short = RULE.configure({"rates": [1.0]})
    rows = decode([request([0], 7)], sure, lambda pool: PlannedDrafter(wrong), short, 3)
    assert set(rows[0].trace.steps.accepted[:2]) == {1}
    with pytest.raises(UsageError, match="exactly one"):
        RULE.configure({})
