"""Several candidates at one node: acceptance against the published values, and exact output laws.

Context-free rows, one level. Golden values and the bound: ALGORITHMS 1.5; wrong rules: CASES B8.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations, permutations, product
from math import prod

import pytest
import torch

from specbench.decoding.laws import DenseLaws
from specbench.decoding.tree import ROOT, TrialKind
from specbench.verify.k_seq import RULE
from specbench.verify.k_seq_factor import best_factor
from specbench.verify.leftover import Place
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.verify.exact import chance, first, law_of, round_law
from tests.verify.trees import Setting

K_SEQ = RULE.configure({})
EXACT_THRESHOLD = THRESHOLD.configure({"acc": 1, "single": 1})
IID, WITHOUT, SET = (
    TrialKind.IID,
    TrialKind.WITHOUT_REPLACEMENT,
    TrialKind.DETERMINISTIC_SET,
)
A = ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3])
B = (
    [0.12309576, 0.70225211, 0.08966286, 0.08498926],
    [0.00478034, 0.24345326, 0.57059504, 0.18117136],
)
EXACT = 1e-6


def setting(vector, k, kind):
    """k candidates behind the root, whatever the token before."""
    p, q = vector
    return Setting(torch.tensor([p] * len(p)), torch.tensor([q] * len(p)), (ROOT,) * k, kind)


GOLDEN = [
    # vector, k, multi_round iid, without replacement, K-SEQ, top-k set
    (A, 1, 0.7, 0.7, 0.7, 0.3),
    (A, 2, 0.76, 0.808571, 0.791355, 0.5),
    (A, 3, 0.808, 1.0, 0.858519, 1.0),
    (B, 1, 0.422886, 0.422886, 0.422886, 0.089663),
    (B, 2, 0.566145, 0.730065, 0.583154, 0.791915),
    (B, 3, 0.673842, 0.892798, 0.700213, 0.876904),
]


@pytest.mark.parametrize(("vector", "k", "iid", "without", "k_seq", "top"), GOLDEN)
def test_acceptance_is_the_published_one_and_the_law_is_the_target(
    vector, k, iid, without, k_seq, top
):
    for rule, kind, expected in (
        (MULTI_ROUND, IID, iid),
        (MULTI_ROUND, WITHOUT, without),
        (MULTI_ROUND, SET, top),
        (TRAVERSAL, IID, iid),
        (TRAVERSAL, WITHOUT, without),
        (TRAVERSAL, SET, top),
        (K_SEQ, IID, k_seq),
        (EXACT_THRESHOLD, SET, top),
    ):
        if rule is K_SEQ and k == 3:
            continue  # many draws; the next test has it in closed form
        law = round_law(rule, setting(vector, k, kind))
        assert chance(law) == pytest.approx(expected, abs=2e-6)
        assert first(law, len(vector[0])) == pytest.approx(vector[0], abs=EXACT)


@pytest.mark.parametrize(
    ("vector", "k", "factor", "acceptance"),
    [
        (A, 1, 1.0, 0.7),
        (A, 2, 1.456776, 0.791355),
        (A, 3, 1.792593, 0.858519),
        (B, 2, 1.6456, 0.583154),
        (B, 3, 2.1172, 0.700213),
    ],
)
def test_k_seq_passes_as_often_as_its_factor_says(vector, k, factor, acceptance):
    p, q = (torch.tensor([line], dtype=torch.float64) for line in vector)
    rho = best_factor(p, q, torch.tensor([float(k)], dtype=torch.float64))
    assert rho.item() == pytest.approx(factor, abs=5e-5)
    kept = torch.minimum(q, p / rho).sum().item()
    assert 1 - (1 - kept) ** k == pytest.approx(acceptance, abs=1e-6)
    assert 1 - (1 - kept) ** k <= rho.item() * kept


def transport_bound(p, sets):
    """min over H of p(H) + 1 - Q(all candidates in H), ``sets`` a law of candidate sets."""
    tokens = range(len(p))
    subsets = chain.from_iterable(combinations(tokens, n) for n in range(len(p) + 1))
    return min(
        sum(p[x] for x in h) + 1 - sum(mass for drawn, mass in sets if set(drawn) <= set(h))
        for h in subsets
    )


def iid_sets(q, k):
    return [(drawn, prod(q[x] for x in drawn)) for drawn in product(range(len(q)), repeat=k)]


def sets_without(q, k):
    """Ordered draws without replacement."""
    found = []
    for drawn in permutations(range(len(q)), k):
        left = [1 - sum(q[x] for x in drawn[:i]) for i in range(k)]
        found.append((drawn, prod(q[x] / m for x, m in zip(drawn, left, strict=True))))
    return found


def test_the_transport_bound_has_the_published_values():
    for k, bound in ((1, 0.7), (2, 0.86), (3, 0.988)):
        assert transport_bound(A[0], iid_sets(A[1], k)) == pytest.approx(bound, abs=1e-6)
    for k, iid, without in ((2, 0.609499, 0.807663), (3, 0.749789, 0.911668)):
        assert transport_bound(B[0], iid_sets(B[1], k)) == pytest.approx(iid, abs=1e-6)
        assert transport_bound(B[0], sets_without(B[1], k)) == pytest.approx(without, abs=1e-6)


def random_vectors(seed, size):
    noise = torch.randn(2, size, generator=torch.Generator().manual_seed(seed))
    return torch.softmax(2 * noise.double(), 1).tolist()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_rule_passes_the_transport_bound(seed):
    p, q = random_vectors(seed, 3)
    bound = transport_bound(p, iid_sets(q, 2))
    without = transport_bound(p, sets_without(q, 2))
    for rule in (MULTI_ROUND, TRAVERSAL, K_SEQ):
        assert chance(round_law(rule, setting((p, q), 2, IID))) <= bound + EXACT
    for rule in (MULTI_ROUND, TRAVERSAL):
        assert chance(round_law(rule, setting((p, q), 2, WITHOUT))) <= without + EXACT
    # SpecTr: within 1 - (1 - 1/k)^k of the best.
    assert chance(round_law(K_SEQ, setting((p, q), 2, IID))) >= 0.75 * bound - EXACT


@pytest.mark.parametrize("kind", [IID, WITHOUT])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.0, 0.6, 0.4], [0.5, 0.5, 0.0]),
        ([0.25, 0.25, 0.5], [0.25, 0.25, 0.5]),
        ([1.0, 0.0, 0.0], [0.0, 0.25, 0.75]),
        ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
    ],
)
def test_zero_probabilities_equal_rows_and_disjoint_ones(kind, p, q):
    """Three candidates from at most three possible tokens: draws without replacement run out."""
    overlap = sum(map(min, p, q))
    for rule in (MULTI_ROUND, TRAVERSAL, EXACT_THRESHOLD, *([K_SEQ] if kind is IID else [])):
        law = round_law(rule, setting((p, q), 3, kind))
        assert first(law, 3) == pytest.approx(p, abs=EXACT)
        if overlap in (0.0, 1.0) and rule is not EXACT_THRESHOLD:
            assert chance(law) == pytest.approx(overlap, abs=EXACT)


def wrong_kind(vector, k, drawn, told):
    """Law when candidates were drawn in one way and the rule is told another."""
    right = setting(vector, k, drawn).batch(0)
    return law_of(MULTI_ROUND, replace(right, trials=replace(right.trials, kind=told)))


def off(law, p):
    return sum(abs(a - b) for a, b in zip(first(law, len(p)), p, strict=True)) / 2


@pytest.mark.parametrize(("k", "distance"), [(2, 0.0405), (3, 0.107)])
def test_without_replacement_against_the_whole_draft_is_caught(k, distance):
    assert off(wrong_kind(B, k, WITHOUT, IID), B[0]) == pytest.approx(distance, abs=5e-4)


def test_independent_draws_whose_repeats_are_dropped_are_draws_without_replacement():
    """Given that it is not a repeat, an independent draw has the law without the tokens before."""
    law = wrong_kind(B, 2, IID, WITHOUT)
    assert first(law, 4) == pytest.approx(B[0], abs=EXACT)
    assert chance(law) <= GOLDEN[4][3]


@pytest.mark.parametrize("rule", [MULTI_ROUND, TRAVERSAL])
def test_siblings_without_replacement_may_keep_the_law_each_was_drawn_from(rule):
    shared = setting(B, 2, WITHOUT).batch(0)
    q = torch.tensor(B[1])
    rows = q.repeat(len(shared.weight), 2, 1)
    rows[torch.arange(len(rows)), 1, shared.tree.ids[:, 0]] = 0.0
    rows[:, 1] /= rows[:, 1].sum(1, keepdim=True)
    trials = replace(shared.trials, law=torch.tensor([[0, 1]]).expand(len(rows), 2))
    law = law_of(rule, replace(shared, trials=trials, laws=DenseLaws(rows)))
    assert first(law, 4) == pytest.approx(B[0], abs=EXACT)
    assert chance(law) == pytest.approx(GOLDEN[4][3], abs=2e-6)


def test_no_renormalising_gives_the_published_wrong_law(monkeypatch):
    p = [0.5, 0.3, 0.2]
    siblings = setting((p, [0.6, 0.3, 0.1]), 2, SET)
    law = round_law(MULTI_ROUND, siblings)
    assert first(law, 3) == pytest.approx(p, abs=EXACT)
    assert sum(m for path, m in law.items() if path[0] == 1 and len(path) > 1) == pytest.approx(
        0.5 * 0.6, abs=EXACT
    )
    leave = Place.leave
    monkeypatch.setattr(Place, "leave", lambda place, row, mass, *rest: leave(place, row, 1, *rest))
    assert first(round_law(MULTI_ROUND, siblings), 3) == pytest.approx([0.5, 0.15, 0.35], abs=EXACT)
