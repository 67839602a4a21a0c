"""Threshold acceptance on trees: siblings share one coin (ALGORITHMS 1.11)."""

from __future__ import annotations

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import ROOT, TokenTree, TrialKind, Trials
from specbench.verify.threshold import RULE
from tests.verify.exact import first, law_of, round_law
from tests.verify.trees import Setting

P = [0.5, 0.3, 0.2]


def rule(acc=1.0, single=1.0):
    return RULE.configure({"acc": acc, "single": single})


def siblings(*tokens):
    """Candidates of the root, in this order, and their batch of one."""
    count = len(tokens)
    setting = Setting(
        torch.tensor([P] * 3),
        torch.tensor([P] * 3),
        (ROOT,) * count,
        TrialKind.DETERMINISTIC_SET,
    )
    return setting.of([tokens], 0)


@pytest.mark.parametrize(
    ("acc", "single", "tokens", "output", "kept"),
    [
        # 1 for a coin below .3 / .8, 2 below .5 / .8; then nothing but 0 is left.
        (0.8, 1.0, (1, 2), [0.375, 0.375, 0.25], 0.625),
        (0.8, 1.0, (2, 1), [0.375, 0.375, 0.25], 0.625),
        # One candidate: out(x) = min(1, p(x) / acc), the others share the rest.
        (0.8, 1.0, (1, 1), [0.4464285714, 0.375, 0.1785714286], 0.375),
        # 1 is likely enough by itself.
        (1.0, 0.25, (2, 1), [0.0, 0.8, 0.2], 1.0),
        (0.4, 1.0, (1, 2), [0.0, 0.75, 0.25], 1.0),
        (1.0, 1.0, (1, 2), P, 0.5),
        (1.0, 1.0, (1, 1), P, 0.3),
        (1.0, 1.0, (0, 1, 2), P, 1.0),
    ],
)
def test_the_law_of_siblings(acc, single, tokens, output, kept):
    law = law_of(rule(acc, single), siblings(*tokens))
    assert first(law, 3) == pytest.approx(output, abs=1e-6)
    assert sum(m for path, m in law.items() if len(path) > 1) == pytest.approx(kept, abs=1e-6)


def judge(accept, ids, parents, rows, acc=1.0, single=1.0, last=0.4):
    count = len(ids)
    tree = TokenTree(torch.tensor([ids]), torch.tensor([parents]), (count,), False)
    trials = Trials(tree.parents, torch.arange(count)[None], tree.parents + 1, TrialKind.ONE_HOT)
    target = TargetRows(
        torch.tensor(rows).log(), torch.arange(count + 1)[None], [Sampling(1.0)] * (count + 1)
    )
    number = torch.full((1,), last, dtype=torch.float64)
    uniforms = Uniforms(
        torch.tensor([accept], dtype=torch.float64), number, number, number.expand(1, count + 1)
    )
    verdict, _ = rule(acc, single)(tree, trials, target, OneHotLaws(), None, uniforms)
    return (
        verdict.path[0, : int(verdict.n_accepted)].tolist(),
        int(verdict.next_token),
        int(verdict.kind),
    )


def test_the_coin_is_the_number_of_the_first_trial_at_each_parent():
    ids, parents, rows = [1, 2, 2, 0], [ROOT, ROOT, 1, 1], [P] * 5
    # .35 lies between .3 and .5: the second child; then .6 between .2 and .7: its second child.
    assert judge([0.35, 0.99, 0.6, 0.99], ids, parents, rows) == ([1, 3], 0, BONUS)
    assert judge([0.35, 0.0, 0.1, 0.99], ids, parents, rows) == ([1, 2], 0, BONUS)
    assert judge([0.35, 0.0, 0.8, 0.0], ids, parents, rows) == ([1], 1, RECOVERED)
    assert judge([0.6, 0.0, 0.0, 0.0], ids, parents, rows) == ([], 0, RECOVERED)


def test_rejected_siblings_are_not_drawn_and_an_empty_rest_falls_back_to_the_target():
    assert judge([0.9, 0.0], [0, 1], [ROOT, ROOT], [P] * 3, last=0.01)[1] == 2
    certain = [[0.0, 1.0, 0.0]] * 2
    assert judge([0.5], [1], [ROOT], certain) == ([0], 1, BONUS)
    assert judge([0.0], [0], [ROOT], certain) == ([], 1, RECOVERED)


def test_candidates_drawn_in_any_way_do_not_matter_at_one_and_one():
    """Membership of one draw from the target in a set that does not depend on it."""
    p, q = torch.tensor([P] * 3), torch.tensor([[0.2, 0.5, 0.3]] * 3)
    for kind in (TrialKind.IID, TrialKind.WITHOUT_REPLACEMENT, TrialKind.DETERMINISTIC_SET):
        law = round_law(rule(), Setting(p, q, (ROOT, ROOT), kind))
        assert first(law, 3) == pytest.approx(P, abs=1e-6)


def test_a_tree_with_one_path_is_judged_as_the_chain():
    generator = torch.Generator().manual_seed(1)
    for _ in range(50):
        ids = torch.randint(0, 3, (1, 3), generator=generator)
        rows = torch.softmax(2 * torch.randn(4, 3, generator=generator), 1)
        numbers = torch.rand(5, generator=generator).double()
        found = []
        for chain in (True, False):
            tree = TokenTree(ids, torch.tensor([[ROOT, 0, 1]]), (3,), chain)
            trials = Trials(tree.parents, torch.tensor([[0, 1, 2]]), ids, TrialKind.ONE_HOT)
            target = TargetRows(rows.log(), torch.arange(4)[None], [Sampling(1.0)] * 4)
            uniforms = Uniforms(numbers[None, :3], numbers[3:4], numbers[4:], numbers[None, :4])
            verdict = rule(0.7, 0.9)(tree, trials, target, OneHotLaws(), None, uniforms)[0]
            found.append(
                [
                    getattr(verdict, name).tolist()
                    for name in ("path", "n_accepted", "next_token", "kind")
                ]
            )
        assert found[0] == found[1]
