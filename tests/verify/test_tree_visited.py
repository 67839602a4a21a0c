"""Rules on trees look at the target's rows along their walk, and at no others."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

from specbench import catalog
from specbench.core.request import Sampling
from specbench.decoding import rows as rows_module
from specbench.decoding.laws import DenseLaws
from specbench.decoding.noise import step_uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import RowContext, draw_without_replacement, probabilities
from specbench.decoding.tree import ROOT, TokenTree, TrialKind, Trials

BATCH, NODES, SIZE = 3, 12, 20
RULES = ["multi_round", "traversal", "target_match", "threshold"]


def case(seed, settings):
    """Random trees, siblings drawn without replacement from one random law per parent."""
    chance = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(BATCH, NODES + 1, SIZE, generator=generator)
    law = torch.softmax(logits + torch.randn(logits.shape, generator=generator) / 2, 2)
    parents = torch.tensor(
        [[chance.randrange(ROOT, node) for node in range(NODES)] for _ in range(BATCH)]
    )
    ids = torch.empty_like(parents)
    for b in range(BATCH):
        for parent in range(ROOT, NODES):
            children = (parents[b] == parent).nonzero().flatten()
            if len(children):
                numbers = torch.rand(1, len(children), generator=generator, dtype=torch.float64)
                ids[b, children] = draw_without_replacement(law[b, parent + 1][None], numbers)[0]
    tree = TokenTree(ids, parents, (NODES,) * BATCH, False)
    node = torch.arange(NODES).expand(BATCH, NODES)
    trials = Trials(parents, node, parents + 1, TrialKind.WITHOUT_REPLACEMENT)
    index = torch.arange(BATCH * (NODES + 1)).view(BATCH, NODES + 1)
    sampling = [one for one in settings for _ in range(NODES + 1)]
    target = TargetRows(logits.view(-1, SIZE), index, sampling)
    sequences = [
        SimpleNamespace(request=SimpleNamespace(sampling=one, seed=seed + b), step=2, length=9)
        for b, one in enumerate(settings)
    ]
    return tree, trials, target, DenseLaws(law), sequences


def verdict(name, drawn):
    tree, trials, target, laws, sequences = drawn
    rule = catalog.resolve("rules", name).configure({})
    draft = SimpleNamespace(tree=tree, trials=trials)
    uniforms = step_uniforms(sequences, draft, torch.device("cpu"), rule.info)
    return rule(tree, trials, target, laws, [None] * BATCH, uniforms)[0]


HOT = [Sampling(1.0)] * BATCH
MIXED = [Sampling(0.7, top_p=0.9), Sampling(0.0), Sampling(1.3, top_k=5)]


@pytest.mark.parametrize("settings", [HOT, MIXED], ids=["hot", "mixed"])
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_rows_made_beforehand_give_the_same_verdict(name, seed, settings):
    drawn, again = case(seed, settings), case(seed, settings)
    again[2].processed()
    got, expected = verdict(name, drawn), verdict(name, again)
    for field in ("path", "n_accepted", "next_token", "kind"):
        assert torch.equal(getattr(got, field), getattr(expected, field))


@pytest.mark.parametrize("name", ["multi_round", "target_match", "threshold"])
@pytest.mark.parametrize("seed", range(6))
def test_a_walk_down_processes_a_row_per_accepted_node_and_one(monkeypatch, name, seed):
    made = []

    def counted(logits, *how):
        made.append(len(logits))
        return probabilities(logits, *how)

    drawn = case(seed, HOT)
    monkeypatch.setattr(rows_module, "probabilities", counted)
    found = verdict(name, drawn)
    assert sum(made) == int(found.n_accepted.sum()) + BATCH


@pytest.mark.parametrize("settings", [HOT, MIXED], ids=["hot", "mixed"])
def test_single_rows_are_those_of_all(settings):
    one, all_rows = case(0, settings)[2], case(0, settings)[2].processed()
    places = [5, 30, 5, 0, 17]
    for place, row in zip(places, one.processed_rows(places), strict=True):
        assert torch.equal(row, all_rows[place])


def test_single_rows_are_penalised_as_all_are():
    settings = [Sampling(1.0, repetition_penalty=1.3, presence_penalty=0.5)] * BATCH
    made = case(0, settings)[2]
    contexts = [RowContext([i % SIZE, 3], [7, i % 5], [4]) for i in range(BATCH * (NODES + 1))]
    one, whole = (TargetRows(made.raw, made.index, made.sampling, contexts) for _ in range(2))
    places = [5, 30, 0]
    assert torch.equal(one.adjusted_rows(places), whole.adjusted[places])
    assert torch.equal(torch.stack(one.processed_rows(places)), whole.processed()[places])
    assert one.adjusted_rows(places)[:, 4].isinf().all()
