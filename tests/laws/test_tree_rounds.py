"""Trees of two levels over at least three rounds: the tokens have the target's own law.

ALGORITHMS 1.8 asks for whole sequences; one round of a biased rule can look right. Rows depend on
the token before, with zeros in target and draft.
"""

from __future__ import annotations

from itertools import permutations, product

import pytest
import torch

from specbench.decoding.tree import ROOT, TrialKind
from specbench.verify.children import Children
from specbench.verify.k_seq import RULE
from specbench.verify.leftover import Place
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.verify.exact import accepted, distance, first, law_of, plain, round_law, rounds
from tests.verify.trees import Setting

K_SEQ = RULE.configure({})
EXACT_THRESHOLD = THRESHOLD.configure({"acc": 1, "single": 1})
_, IID, WITHOUT, SET, _ = TrialKind
TARGET = torch.tensor([[0.5, 0.375, 0.125], [0.0, 0.75, 0.25], [0.25, 0.25, 0.5]])
DRAFT = torch.tensor([[0.25, 0.75, 0.0], [0.625, 0.0, 0.375], [0.125, 0.125, 0.75]])
FORK = (ROOT, ROOT, 0, 0)
TWINS = (ROOT, ROOT, 0, 1)
EXACT = 1e-6
LENGTH = 7
"""Tokens that no fewer than three rounds of two levels emit."""


@pytest.mark.parametrize(
    ("rule", "kind", "parents"),
    [
        *product([MULTI_ROUND, TRAVERSAL], [IID, WITHOUT, SET], [FORK, TWINS]),
        (EXACT_THRESHOLD, SET, FORK),
        (EXACT_THRESHOLD, SET, TWINS),
        (K_SEQ, IID, FORK),
    ],
)
def test_three_rounds_have_the_law_of_the_target(rule, kind, parents):
    setting = Setting(TARGET, DRAFT, parents, kind)
    for start in range(3) if kind is SET else [0]:
        law = rounds(rule, setting, start, LENGTH)
        assert distance(law, plain(TARGET, start, LENGTH)) < EXACT


@pytest.mark.parametrize("rule", [MULTI_ROUND, TRAVERSAL])
def test_equal_draws_may_share_a_node_but_stay_trials_of_their_own(rule):
    setting = Setting(TARGET, DRAFT, TWINS, IID, shared=True)
    law = rounds(rule, setting, 0, LENGTH)
    assert distance(law, plain(TARGET, 0, LENGTH)) < EXACT


@pytest.mark.parametrize("rule", [MULTI_ROUND, TRAVERSAL])
@pytest.mark.parametrize("parents", [FORK, TWINS])
def test_a_draft_equal_to_the_target_is_accepted_to_the_leaf(rule, parents):
    law = round_law(rule, Setting(TARGET, TARGET, parents, WITHOUT), 2)
    # In both trees the first candidate of the root has a child, and both are accepted at once.
    assert sum(m for path, m in law.items() if len(path) == 3) == pytest.approx(1.0, abs=EXACT)


def climb(p, q, candidates, path=()):
    """Traversal verification of a drawn tree in plain floats: accepted path -> probability.

    From the paper's recursion, context-free rows: ``candidates`` is [(token, [candidates])].
    """
    law = {}

    def judge(way, mass):
        weight, row, draft, rest, token, where = way[-1]
        if rest:
            (x, below), *others = rest
            inner = min(1.0, weight * row[x] / draft[x])
            parent = (weight, row, draft, others, token, where)
            return judge([*way[:-1], parent, (inner, p, q, below, x, (*where, x))], mass)
        if len(way) == 1:
            law[where] = law.get(where, 0.0) + mass
            return None
        law[where] = law.get(where, 0.0) + mass * weight
        if weight == 1.0:
            return None
        above, row, draft, rest, name, place = way[-2]
        left = [max(above * a - b, 0.0) for a, b in zip(row, draft, strict=True)]
        total = sum(left)
        fewer = [0.0 if x == token else b for x, b in enumerate(draft)]
        parent = (
            total / (total + 1 - above),
            [a / total for a in left] if total else row,
            [b / sum(fewer) for b in fewer] if sum(fewer) else fewer,
            rest,
            name,
            place,
        )
        return judge([*way[:-2], parent], mass * (1 - weight))

    judge([(1.0, p, q, candidates, None, path)], 1.0)
    return law


def test_traversal_accepts_as_much_as_the_papers_recursion_and_more_than_top_down():
    p, q = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
    pairs = [(x, y, q[x] * q[y] / (1 - q[x])) for x, y in permutations(range(3), 2)]
    expected = 0.0
    for top, left in product(pairs, pairs):
        drawn = [(top[0], [(left[0], []), (left[1], [])]), (top[1], [])]
        law = climb(p, q, drawn)
        expected += top[2] * left[2] * sum(len(path) * m for path, m in law.items())
    setting = Setting(torch.tensor([p] * 3), torch.tensor([q] * 3), FORK, WITHOUT)
    own = accepted(round_law(TRAVERSAL, setting))
    assert own == pytest.approx(expected, abs=EXACT)
    assert own > accepted(round_law(MULTI_ROUND, setting)) + 0.05


@pytest.mark.parametrize("strange", [-1, 3, 99])
@pytest.mark.parametrize(
    ("rule", "kind"),
    [(MULTI_ROUND, SET), (TRAVERSAL, SET), (EXACT_THRESHOLD, SET), (TRAVERSAL, WITHOUT)],
)
def test_holes_and_ids_out_of_range_are_rejected_without_bias(rule, kind, strange):
    parents = (ROOT, ROOT, 0) if kind is WITHOUT else FORK
    setting = Setting(TARGET, DRAFT, parents, kind)
    drawn = setting.draws(0)
    # Without replacement, what stands behind a lost token was drawn from a law nobody knows.
    for at in (1, 2) if kind is WITHOUT else (0, 1, 2):
        draws = [tuple(strange if i == at else x for i, x in enumerate(d)) for d, _ in drawn]
        law = law_of(rule, setting.of(draws, 0, [mass for _, mass in drawn]))
        assert first(law, 3) == pytest.approx(TARGET[0].tolist(), abs=EXACT)
        assert all(strange not in path for path in law)


def test_rows_of_the_wrong_node_are_caught(monkeypatch):
    made = Place.__init__

    def late(self, owner, node, offer, rows, weight=1.0):
        places = [offer.places[0], *offer.places[:-1]]
        wrong = Children(offer.by_parent, offer.refused, places, offer.greedy)
        made(self, owner, node, wrong, rows, weight)

    monkeypatch.setattr(Place, "__init__", late)
    for rule in (MULTI_ROUND, TRAVERSAL):
        law = rounds(rule, Setting(TARGET, DRAFT, FORK, WITHOUT), 0, LENGTH)
        assert distance(law, plain(TARGET, 0, LENGTH)) > 0.01


def test_a_step_back_without_the_new_weight_is_caught(monkeypatch):
    """Another update of w than the paper's, as some implementations have it."""
    leave = Place.leave

    def keep(self, *left):
        weight = self.weight
        leave(self, *left)
        self.weight = weight

    monkeypatch.setattr(Place, "leave", keep)
    law = rounds(TRAVERSAL, Setting(TARGET, DRAFT, FORK, WITHOUT), 0, LENGTH)
    assert distance(law, plain(TARGET, 0, LENGTH)) > 0.01
