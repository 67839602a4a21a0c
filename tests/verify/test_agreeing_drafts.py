"""Two drafts that agree make a chain whose nodes are tried twice: every tree rule judges it so."""

from __future__ import annotations

import pytest
import torch

from specbench import catalog
from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws
from specbench.decoding.protocols import Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import ROOT, TokenTree, TrialKind, Trials

TREES = sorted(name for name in catalog.RULES if catalog.resolve("rules", name).info.tree)
DRAWS, V, N = 400, 3, 2


def kind_for(info):
    """Independent draws where the rule takes them: that is what agreeing models give."""
    takes = not info.trials or "independent" in info.trials
    return TrialKind.INDEPENDENT if takes else TrialKind.IID


def judged(rule, kind, chain, temperature, target, numbers):
    """Nodes x, y, each tried by model 1 and then by model 2, whose laws are rows 0, 1 and 2, 3."""
    ids = torch.tensor([[1, 0]]).expand(DRAWS, -1)
    parents = torch.tensor([[ROOT, 0]]).expand(DRAWS, -1)
    tree = TokenTree(ids, parents, (N,) * DRAWS, chain)
    columns = [[ROOT, ROOT, 0, 0], [0, 0, 1, 1], [0, 2, 1, 3]]
    trials = Trials(*(torch.tensor([column]).expand(DRAWS, -1) for column in columns), kind)
    index = torch.arange(N + 1).expand(DRAWS, -1)
    rows = TargetRows(target.log(), index, [Sampling(temperature)] * (N + 1))
    one = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    # Draws from one law must have one law; independent ones have each their own.
    other = one if kind is TrialKind.IID else torch.tensor([[0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    laws = DenseLaws(torch.cat([one, other])[None].expand(DRAWS, -1, -1))
    uniforms = Uniforms(numbers[:, :4], numbers[:, 4], numbers[:, 5], numbers[:, 6:])
    return rule(tree, trials, rows, laws, [rule.admit([0, 1])] * DRAWS, uniforms)[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", TREES)
def test_a_chain_with_two_trials_per_node_is_judged_as_the_tree_that_it_is(name, temperature):
    rule = catalog.resolve("rules", name).configure({}, N)
    if temperature and not rule.info.sampled:
        pytest.skip("the rule judges temperature 0 alone")
    generator = torch.Generator().manual_seed(3)
    target = torch.softmax(torch.randn(N + 1, V, generator=generator), 1)
    target[0] = torch.tensor([0.3, 0.4, 0.3])  # the first draft is the choice at temperature 0
    numbers = torch.rand(DRAWS, 4 + 2 + N + 1, generator=generator, dtype=torch.float64)
    kind = kind_for(rule.info)
    line, tree = (judged(rule, kind, c, temperature, target, numbers) for c in (True, False))
    assert line.n_accepted.tolist() == tree.n_accepted.tolist()
    assert line.next_token.tolist() == tree.next_token.tolist()
    assert line.kind.tolist() == tree.kind.tolist()
    for b, count in enumerate(line.n_accepted.tolist()):
        assert line.path[b, :count].tolist() == tree.path[b, :count].tolist()
    assert line.n_accepted.max() > 0


def test_threshold_counts_a_candidate_of_two_models_once():
    """Kept below .4 / .8 at the root and below .2 / .8 behind it, by the first coin alone."""
    rule = catalog.resolve("rules", "threshold").configure({"acc": 0.8, "single": 1.0}, N)
    target = torch.tensor([[0.3, 0.4, 0.3], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    numbers = torch.full((DRAWS, 4 + 2 + N + 1), 0.999, dtype=torch.float64)
    numbers[:, 0] = (torch.arange(DRAWS) + 0.5) / DRAWS
    numbers[:, 2] = (torch.arange(DRAWS) * 7 % DRAWS + 0.5) / DRAWS
    found = judged(rule, TrialKind.INDEPENDENT, True, 1.0, target, numbers)
    expected = [
        0 if first >= 0.4 / 0.8 else 1 if second >= 0.2 / 0.8 else 2
        for first, second in zip(numbers[:, 0].tolist(), numbers[:, 2].tolist(), strict=True)
    ]
    assert found.n_accepted.tolist() == expected
    assert set(expected) == {0, 1, 2}
