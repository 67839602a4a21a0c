"""Block verification: the target's law over several rounds, and the published accept lengths."""

from itertools import product

import pytest
import torch

from specbench.verify.block import RULE as BLOCK
from specbench.verify.rejection import RULE as REJECTION
from tests.laws.integrate import Tables, block_law, cells, chained, distance, plain_law

TARGET = torch.tensor([[0.5, 0.375, 0.125], [0.0, 0.75, 0.25], [0.25, 0.25, 0.5]])
DRAFT = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])


def axes(target, draft, k):
    """Borders at every acceptance chance and residual, from the formulas of the paper in floats."""
    chances, last = [0.0], [0.0]
    size = len(target)
    for start in range(size):
        for path in product(range(size), repeat=k):
            weight, before = 1.0, start
            for token in path:
                p, q = target[before].double(), draft[before].double()
                rest = (weight * p - q).clamp(min=0)
                for line in (p, rest):
                    if line.sum() > 0:
                        last += (line.cumsum(0) / line.sum()).tolist()
                if q[token] == 0:
                    break
                weight = min(1.0, weight * float(p[token] / q[token]))
                mass = float(
                    (weight * target[token].double() - draft[token].double()).clamp(min=0).sum()
                )
                chances += [weight, mass / (mass + 1 - weight) if mass + 1 > weight else 1.0]
                before = token
            last += target[before].double().cumsum(0).tolist()
    return cells(chances), cells(last)


def tables(target, draft, k):
    one_hot = draft if isinstance(draft, torch.Tensor) else torch.eye(len(target))[draft]
    accept, last = axes(target, one_hot, k)
    return Tables(target, draft, accept, last, cells([0.0]))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("draft", [DRAFT, [1, 0, 2]])
def test_three_rounds_have_the_law_of_the_target(draft, k):
    setting = tables(TARGET, draft, k)
    length = 2 * (k + 1) + 1
    for start in range(3):
        law = chained(lambda before: block_law(BLOCK, setting, before, k), start, length)
        assert distance(law, plain_law(TARGET, start, length)) < 1e-6


@pytest.mark.parametrize("draft", [TARGET, DRAFT])
def test_it_never_accepts_less_than_rejection(draft):
    for k in (1, 2, 3):
        setting = tables(TARGET, draft, k)
        for start in range(3):
            means = [
                sum(p * (len(path) - 1) for path, p in block_law(rule, setting, start, k).items())
                for rule in (BLOCK, REJECTION)
            ]
            assert means[0] >= means[1] - 1e-6


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
    target, draft = torch.tensor([p] * len(p)), torch.tensor([q] * len(q))
    law = block_law(BLOCK, tables(target, draft, k), 0, k)
    found = [sum(m for path, m in law.items() if len(path) == n + 1) for n in range(k + 1)]
    assert found == pytest.approx(lengths, abs=1e-6)


def test_equal_rows_accept_everything():
    setting = tables(TARGET, TARGET, 3)
    law = block_law(BLOCK, setting, 0, 3)
    assert sum(p for path, p in law.items() if len(path) == 4) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("strange", [-1, 3, 9])
@pytest.mark.parametrize("draft", [DRAFT, [1, 0, 2]])
def test_holes_and_ids_out_of_range_end_the_draft_without_bias(draft, strange):
    setting = tables(TARGET, draft, 2)
    for start in range(3):
        for drafts in (
            [((strange, 0), 1.0)],
            [((*p, strange), m) for p, m in setting.drafts(start, 1)],
        ):
            law = block_law(BLOCK, setting, start, 2, drafts=drafts)
            known = len(drafts[0][0]) - 1 - (drafts[0][0][0] == strange)
            assert max(map(len, law)) <= known + 1
            first = [sum(m for path, m in law.items() if path[0] == token) for token in range(3)]
            assert first == pytest.approx(TARGET[start].tolist(), abs=1e-6)
