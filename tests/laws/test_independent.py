"""Several independent drafters per node: the exact law of three rounds, whatever they agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, TrialKind
from specbench.drafters.chain import chain_draft
from specbench.drafters.merged import merged_draft
from specbench.laws.tables import everywhere
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.verify.exact import accepted, chance, distance, first, plain, round_law, rounds
from tests.verify.trees import Batch

CPU = torch.device("cpu")
TARGET = torch.tensor([[0.5, 0.375, 0.125], [0.0, 0.75, 0.25], [0.25, 0.25, 0.5]])
ONE = torch.tensor([[0.25, 0.75, 0.0], [0.625, 0.0, 0.375], [0.125, 0.125, 0.75]])
OTHER = torch.tensor([[0.75, 0.125, 0.125], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]])
GOLDEN_A = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
GOLDEN_B = (
    [0.12309576, 0.70225211, 0.08966286, 0.08498926],
    [0.00478034, 0.24345326, 0.57059504, 0.18117136],
)
EXACT = 1e-6
LENGTH = 7
"""Tokens that no fewer than three rounds of two levels emit."""


@dataclass(frozen=True)
class Drafters:
    """Rows by the token before, of target and drafters, and the length of every drafter's chain."""

    target: Tensor
    drafts: Sequence[Tensor]
    lengths: Sequence[int]

    def draft(self, start: int) -> tuple[Draft, Tensor]:
        """Every draw behind ``start`` as a request of its own, and its chance."""
        chains = [
            [(line, _mass(rows, start, line)) for line in product(range(len(rows)), repeat=length)]
            for rows, length in zip(self.drafts, self.lengths, strict=True)
        ]
        drawn = [one for one in product(*chains) if all(mass > 0 for _, mass in one)]
        short = [ShortDraft.NONE] * len(drawn)
        drafts = []
        for m, rows in enumerate(self.drafts):
            ids = torch.tensor([one[m][0] for one in drawn], dtype=torch.int64)
            before = torch.cat([torch.full((len(drawn), 1), start), ids], 1)[:, :-1]
            counts = (self.lengths[m],) * len(drawn)
            drafts.append(chain_draft(ids, counts, rows[before], short))
        weight = [torch.tensor([mass for _, mass in one]).double().prod() for one in drawn]
        return merged_draft(drafts, short, CPU), torch.stack(weight)

    def batch(self, start: int) -> Batch:
        """What a rule is given."""
        draft, weight = self.draft(start)
        before = torch.cat([torch.full((len(weight), 1), start), draft.tree.ids], 1)
        rows = TargetRows(
            self.target.log(), before.clamp(min=0), [Sampling(1.0)] * len(self.target)
        )
        return Batch(draft.tree, draft.trials, rows, draft.laws, weight)


def _mass(rows: Tensor, start: int, line: Sequence[int]) -> float:
    mass = 1.0
    for before, token in zip([start, *line], line, strict=False):
        mass *= float(rows[before, token])
    return mass


RULES = [MULTI_ROUND, TRAVERSAL]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("drafts", "lengths"),
    [((ONE, OTHER), (2, 2)), ((ONE, ONE), (2, 2)), ((OTHER, ONE), (1, 2)), ((TARGET, ONE), (2, 1))],
)
def test_three_rounds_have_the_law_of_the_target(rule, drafts, lengths):
    setting = Drafters(TARGET, drafts, lengths)
    assert setting.draft(0)[0].trials.kind is TrialKind.INDEPENDENT
    assert float(setting.draft(0)[1].sum()) == pytest.approx(1.0, abs=EXACT)
    assert distance(rounds(rule, setting, 0, LENGTH), plain(TARGET, 0, LENGTH)) < EXACT


@pytest.mark.parametrize("rule", RULES)
def test_three_drafters_for_one_token(rule):
    setting = Drafters(TARGET, (ONE, OTHER, TARGET.flip(1)), (1, 1, 1))
    for start in range(3):
        law = round_law(rule, setting, start)
        assert first(law, 3) == pytest.approx(TARGET[start].tolist(), abs=EXACT)


@pytest.mark.parametrize(
    ("rows", "kept"),
    [(GOLDEN_A, [0.7, 0.76, 0.808]), (GOLDEN_B, [0.422886, 0.566145, 0.673842])],
)
def test_drafters_of_one_law_are_accepted_as_published(rows, kept):
    """ALGORITHMS 1.5, column RRS iid."""
    target, draft = map(everywhere, rows)
    for count in (1, 2, 3)[: 3 if len(rows[0]) == 3 else 2]:
        setting = Drafters(target, (draft,) * count, (1,) * count)
        assert chance(round_law(MULTI_ROUND, setting)) == pytest.approx(kept[count - 1], abs=2e-6)


def test_traversal_accepts_at_least_as_much():
    setting = Drafters(TARGET, (ONE, OTHER), (2, 2))
    top_down, bottom_up = (accepted(round_law(rule, setting)) for rule in RULES)
    assert bottom_up > top_down - EXACT


class Spoiled(Drafters):
    """Drafts that are handed over wrongly."""

    def __init__(self, inner, how):
        super().__init__(inner.target, inner.drafts, inner.lengths)
        object.__setattr__(self, "how", how)

    def draft(self, start):
        draft, weight = super().draft(start)
        return self.how(draft), weight


def once_per_node(draft):
    node = draft.trials.node.clone()
    for line in node:
        seen = set()
        for i, value in enumerate(line.tolist()):
            line[i] = PAD if value in seen else value
            seen.add(value)
    return replace(draft, trials=replace(draft.trials, node=node))


def all_of_the_first(draft):
    length = draft.trials.law.max() // 2 + 1
    return replace(draft, trials=replace(draft.trials, law=draft.trials.law % length))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("how", [once_per_node, all_of_the_first])
def test_lost_draws_and_laws_of_another_drafter_are_caught(rule, how):
    setting = Spoiled(Drafters(TARGET, (ONE, OTHER), (2, 2)), how)
    assert distance(rounds(rule, setting, 0, LENGTH), plain(TARGET, 0, LENGTH)) > 1e-3
