"""Drawn trees by hand, published acceptance of several candidates, and the best possible one."""

from dataclasses import replace

import pytest
import torch

from specbench import catalog
from specbench.decoding.tree import PAD, ROOT, TrialKind
from specbench.laws.drawn_trees import DrawnTree, TreeTable, children, choices, drawn_trees
from specbench.laws.listed_rules import tree_outcomes
from specbench.laws.outcome import Status
from specbench.laws.packed_trees import Packed, packed
from specbench.laws.tables import everywhere
from specbench.laws.trees import TREES, best_acceptance, beyond_best, tree_law
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.target_match import RULE as TARGET_MATCH

A = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
B = (
    [0.12309576, 0.70225211, 0.08966286, 0.08498926],
    [0.00478034, 0.24345326, 0.57059504, 0.18117136],
)


def test_choices_by_hand():
    row = [0.5, 0.3, 0.2]
    iid = dict(choices(row, 2, TrialKind.IID))
    assert (iid[0, 0], iid[1, 0]) == (pytest.approx(0.25), pytest.approx(0.15))
    without = dict(choices(row, 2, TrialKind.WITHOUT_REPLACEMENT))
    assert (len(without), without[1, 0]) == (6, pytest.approx(0.3 * 0.5 / 0.7))
    assert list(choices(row, 2, TrialKind.DETERMINISTIC_SET)) == [((0, 1), 1.0)]
    scarce = dict(choices([0.75, 0.25, 0.0], 3, TrialKind.WITHOUT_REPLACEMENT))
    assert scarce == pytest.approx({(0, 1): 0.75, (1, 0): 0.25})


def test_independent_draws_have_no_law_from_one_row():
    with pytest.raises(ValueError, match="a row each"):
        list(choices([0.5, 0.3, 0.2], 2, TrialKind.INDEPENDENT))
    with pytest.raises(ValueError, match="a row each"):
        best_acceptance(*A, 2, TrialKind.INDEPENDENT)


def test_children_of_several_drafters_by_hand():
    """Each child from the row of its own drafter; equal ones are tried twice."""
    rows = [0.5, 0.5, 0.0], [0.25, 0.0, 0.75]
    found = dict(children(rows, 2, TrialKind.INDEPENDENT))
    assert found == {(0, 0): 0.125, (0, 2): 0.375, (1, 0): 0.125, (1, 2): 0.375}
    assert dict(children(rows, 1, TrialKind.INDEPENDENT)) == {(0,): 0.5, (1,): 0.5}
    assert list(children(rows, 2, TrialKind.DETERMINISTIC_SET)) == [((0, 1), 1.0)]


def test_every_trial_of_several_drafters_has_the_law_row_of_its_own():
    """Two nodes: three rows of the first drafter, then three of the second."""
    tree = DrawnTree(2).grown(ROOT, (1, 0), 0.25).grown(0, (0, 0), 0.5)
    trials = packed([tree]).trials(torch.tensor([0]), TrialKind.INDEPENDENT)
    assert trials.parent.tolist() == [[ROOT, ROOT, 0, 0]]
    assert trials.law.tolist() == [[0, 4, 1, 5]]


@pytest.mark.parametrize("rule", ["multi_round", "traversal"])
def test_the_first_drafters_law_for_every_trial_is_caught(rule, monkeypatch):
    """What ``specbench laws`` says of a rule that reads the law of another drafter."""
    table = next(one for one in TREES if one.name == "independent: 2 children, four tokens")
    resolved = catalog.resolve("rules", rule).configure({})
    (right,) = tree_outcomes(rule, resolved, [table])
    assert right.status is Status.PASSED
    trials = Packed.trials
    monkeypatch.setattr(
        Packed,
        "trials",
        lambda self, places, kind: replace(
            trials(self, places, kind), law=self.trial_parent[places] + 1
        ),
    )
    (wrong,) = tree_outcomes(rule, resolved, [table])
    assert wrong.status is Status.FAILED


@pytest.mark.parametrize("table", TREES, ids=lambda table: table.name)
def test_the_chances_behind_a_start_add_up(table):
    trees = drawn_trees(table)
    starts = {tree.start for tree in trees}
    for start in starts:
        assert sum(tree.mass for tree in trees if tree.start == start) == pytest.approx(1.0)


def test_a_token_drawn_twice_is_one_node_and_two_trials():
    tree = DrawnTree(2).grown(ROOT, (1, 1), 0.25).grown(0, (0,), 0.5)
    assert (tree.tokens, tree.parents) == ((1, 0), (ROOT, 0))
    assert tree.trials == ((ROOT, 0), (ROOT, 0), (0, 1))
    assert tree.mass == 0.125
    tensors = packed([tree, DrawnTree(0).grown(ROOT, (2,), 1.0)])
    assert tensors.ids.tolist() == [[1, 0], [2, PAD]]
    assert tensors.trial_node.tolist() == [[0, 0, 1], [0, PAD, PAD]]
    assert tensors.trials(torch.tensor([0]), TrialKind.IID).law.tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("rows", "kind", "best"),
    [
        (A, TrialKind.IID, [0.7, 0.86, 0.988]),
        (B, TrialKind.IID, [0.422886, 0.609499, 0.749789]),
        (B, TrialKind.WITHOUT_REPLACEMENT, [0.422886, 0.807663, 0.911668]),
        (A, TrialKind.DETERMINISTIC_SET, [0.3, 0.5, 1.0]),
        (B, TrialKind.DETERMINISTIC_SET, [0.089663, 0.791915, 0.876904]),
    ],
)
def test_best_acceptance_is_the_published_one(rows, kind, best):
    """ALGORITHMS 1.5, columns OT; a set without chance is accepted with its target mass."""
    found = [best_acceptance(*rows, k, kind) for k in (1, 2, 3)]
    assert found == pytest.approx(best, abs=2e-6)


@pytest.mark.parametrize(
    ("name", "kind", "accepted"),
    [
        ("multi_round", TrialKind.IID, [0.422886, 0.566145, 0.673842]),
        ("multi_round", TrialKind.WITHOUT_REPLACEMENT, [0.422886, 0.730065, 0.892798]),
        ("multi_round", TrialKind.DETERMINISTIC_SET, [0.089663, 0.791915, 0.876904]),
        ("k_seq", TrialKind.IID, [0.422886, 0.583154, 0.700213]),
        ("target_match", TrialKind.IID, [0.238113, 0.402619, 0.520813]),
    ],
)
def test_golden_b_is_accepted_as_published(name, kind, accepted):
    """ALGORITHMS 1.5, golden B."""
    rule = catalog.resolve("rules", name).configure({})
    for k, expected in enumerate(accepted[:2], 1):
        table = TreeTable("golden B", everywhere(B[0]), everywhere(B[1]), kind, (k,))
        law = tree_law(rule, table)
        assert float(law.emits(2)[0]) == pytest.approx(expected, abs=2e-6)
        assert beyond_best(law, table) == ""


def test_more_than_the_best_is_noticed():
    generous = TreeTable("", everywhere(A[1]), everywhere(A[1]), TrialKind.IID, (1,))
    strict = TreeTable("", everywhere(A[0]), everywhere(A[1]), TrialKind.IID, (1,))
    assert beyond_best(tree_law(MULTI_ROUND, generous), strict)


def without_renormalising(tree, trials, rows, laws, states, uniforms):
    """CASES B8: a failed sibling's mass is not shared out before the next test."""
    target = rows.processed()[rows.index[:, 0]]
    first, second = (target.gather(1, tree.ids[:, n : n + 1]).squeeze(1) for n in (0, 1))
    one = uniforms.accept[:, 0] < first
    two = ~one & (uniforms.accept[:, 1] < second)
    verdict, states = TARGET_MATCH(tree, trials, rows, laws, states, uniforms)
    token = torch.where(one, tree.ids[:, 0], torch.where(two, tree.ids[:, 1], 2))
    verdict.n_accepted.zero_()
    verdict.next_token.copy_(token)
    return verdict, states


def test_b8_siblings_by_hand():
    target = everywhere([0.5, 0.3, 0.2])
    table = TreeTable("B8", target, target, TrialKind.DETERMINISTIC_SET, (2,))
    for name in ("multi_round", "target_match", "traversal"):
        law = tree_law(catalog.resolve("rules", name).configure({}), table)
        assert law.reach(1)[0].tolist() == pytest.approx([0.5, 0.3, 0.2], abs=1e-6)
        assert float(law.emits(2)[0]) == pytest.approx(0.8, abs=1e-6)
    without_renormalising.info = TARGET_MATCH.info
    wrong = tree_law(without_renormalising, table)
    assert wrong.reach(1)[0].tolist() == pytest.approx([0.5, 0.15, 0.35], abs=1e-6)
