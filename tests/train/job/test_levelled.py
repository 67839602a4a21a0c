"""Norms of new heads that bring the dimensions of a target's states to one size."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from specbench.train.job.heads import starting_head
from specbench.train.job.levelled import SAMPLE, levelled, levelling
from specbench.train.job.methods import load_target

SIZES = torch.ones(64)
SIZES[0], SIZES[-1] = 0.5, 6.0


def states_of(sizes, seed=0):
    """Normal states [T, H] of dimensions of these sizes; every 50th row has a massive one."""
    states = torch.randn(2000, len(sizes), generator=torch.Generator().manual_seed(seed)) * sizes
    states[::50, 1] = 5000.0
    return states


def behind(states, weights):
    """Root mean square of every dimension behind a norm with these weights, usual rows alone."""
    usual = states[states.abs().max(1).values < 1000]
    normed = nn.functional.rms_norm(usual, (usual.shape[1],), weights)
    return normed.square().mean(0).sqrt()


def test_all_dimensions_come_out_alike():
    states = states_of(SIZES)
    found = levelling(states)
    torch.testing.assert_close(behind(states, found), torch.ones(64), rtol=0.02, atol=0)
    # Rows with a massive dimension counted, it would have the smallest weight but one.
    assert found[1] == pytest.approx(float(found[2]), rel=0.1)


def test_a_dimension_that_is_never_used_stays_small():
    found = levelling(states_of(torch.tensor([0.0, *[1.0] * 63])))
    assert float(found[0]) == pytest.approx(10 * float(found[2:].median()), rel=0.1)


@dataclass
class Captured:
    """States of a target, one tensor per tap; remembers which conversations were asked for."""

    states: dict
    asked: list = field(default_factory=list)

    def load(self, chosen):
        self.asked = list(chosen)
        return self


@pytest.fixture(scope="module")
def target(bench):
    return load_target(bench.recipe("eagle3"))


def test_the_norms_that_read_the_target(bench, target):
    head = starting_head(bench.recipe("eagle3", head={"fc_norm": True}), target, None)
    sizes = torch.ones(target.config.hidden_size)
    sizes[3] = 3.0
    corpus = Captured({tap: states_of(sizes, n) for n, tap in enumerate(head.config.taps)})
    found = levelled(head, corpus, list(range(1000)))
    assert SAMPLE <= len(corpus.asked) <= 2 * SAMPLE
    norms = {f"fc_norm.{place}.weight": tap for place, tap in enumerate(head.config.taps)}
    for name, tap in norms.items():
        sizes = behind(corpus.states[tap], found.tensors[name])
        torch.testing.assert_close(sizes, torch.ones_like(sizes), rtol=0.02, atol=0)
    changed = {n for n, t in found.tensors.items() if not torch.equal(t, head.tensors[n])}
    assert changed == {*norms, "fc.weight"}
    again = levelled(head, corpus, list(range(1000)))
    assert all(torch.equal(again.tensors[name], found.tensors[name]) for name in changed)


@pytest.mark.parametrize("method", ["eagle1", "eagle3", "medusa1", "mtp"])
def test_heads_without_such_norms_stay_as_they_are(bench, target, method):
    head = starting_head(bench.recipe(method), target, None)
    assert levelled(head, Captured({}), [0]) is head
