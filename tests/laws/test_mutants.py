"""Wrong rules that the law check must catch; acceptance alone shows none of them."""

from dataclasses import replace

import pytest
import torch

from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import BONUS, Uniforms
from specbench.decoding.sampling import draw
from specbench.verify.rejection import RULE as REJECTION
from tests.laws.integrate import (
    Tables,
    accepted,
    block_law,
    chained,
    distance,
    first_token,
    grid,
    judged,
    plain_law,
    thresholds,
)
from tests.laws.test_chain_rules import FOUR, THREE, tables

VISIBLE = 0.01
"""A caught mutant is off by more than this in total variation; a right rule by under 1e-6."""


def error(rule, setting, k, laws_of=None):
    """Distance from the target over three rounds, worst start."""
    length = 2 * (k + 1) + 1
    block = lambda before: block_law(rule, setting, before, k, laws_of=laws_of)  # noqa: E731
    return max(
        distance(chained(block, start, length), plain_law(setting.target, start, length))
        for start in range(len(setting.target))
    )


class ResidualFromTarget(DenseLaws):
    """After a rejection the token comes from the target itself."""

    def subtract_from(self, target, row, token, scale=1.0):
        return target


def bonus_from_the_last_judged_position(tree, trials, rows, laws, state, uniforms):
    verdict, state = REJECTION(tree, trials, rows, laws, state, uniforms)
    wrong = draw(rows.at((verdict.n_accepted - 1).clamp(min=0)), uniforms.bonus)
    token = torch.where(verdict.kind == BONUS, wrong, verdict.next_token)
    return replace(verdict, next_token=token), state


def test_the_right_rule_passes_the_same_check():
    assert error(REJECTION, tables(*THREE), 2) < 1e-6
    assert error(REJECTION, tables(*FOUR), 1) < 1e-6


def test_residual_from_the_target_is_caught():
    setting = tables(*FOUR)
    wrong = lambda start, ids: ResidualFromTarget(setting.laws(start, ids).rows)  # noqa: E731
    assert error(REJECTION, setting, 2, wrong) > VISIBLE
    right, bad = (
        block_law(REJECTION, setting, 0, 1),
        block_law(REJECTION, setting, 0, 1, laws_of=wrong),
    )
    assert accepted(right, 1) == pytest.approx(accepted(bad, 1), abs=1e-9)


def test_bonus_from_the_wrong_position_is_caught():
    assert error(bonus_from_the_last_judged_position, tables(*THREE), 1) > VISIBLE
    assert error(bonus_from_the_last_judged_position, tables(*FOUR), 2) > VISIBLE


def raw_ratio(p, processed, raw):
    """Block law when drafts come from ``processed`` but the rule is told ``raw``."""
    size = len(p)
    target, draft, told = (torch.tensor([line] * size) for line in (p, processed, raw))
    setting = Tables(target, draft, *thresholds(target[:1], torch.cat([draft[:1], told[:1]])))
    return block_law(REJECTION, setting, 0, 1, laws_of=lambda start, ids: DenseLaws(told[ids]))


def test_b1_ratio_with_the_raw_softmax_gives_the_published_wrong_law():
    law = raw_ratio([0.4, 0.6, 0.0, 0.0], [0.625, 0.375, 0.0, 0.0], [0.5, 0.3, 0.15, 0.05])
    assert first_token(law, 4) == pytest.approx([0.5, 0.5, 0.0, 0.0], abs=1e-6)
    assert accepted(law, 1) == pytest.approx(0.875, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "softmax", "wrong"),
    [([0.51, 0.49], [0.51, 0.49], [1.0, 0.0]), ([0.5, 0.5], [0.6, 0.4], [5 / 6, 1 / 6])],
)
def test_b2_an_argmax_draft_scored_with_its_softmax(p, softmax, wrong):
    law = raw_ratio(p, [1.0, 0.0], softmax)
    assert first_token(law, 2) == pytest.approx(wrong, abs=1e-6)


def test_b3_residual_from_the_target_gives_the_published_wrong_law():
    p, q = torch.tensor([[0.3, 0.7]] * 2), torch.tensor([[0.8, 0.2]] * 2)
    setting = Tables(p, q, *thresholds(p[:1], q[:1]))
    wrong = lambda start, ids: ResidualFromTarget(q[ids])  # noqa: E731
    law = block_law(REJECTION, setting, 0, 1, laws_of=wrong)
    assert first_token(law, 2) == pytest.approx([0.45, 0.55], abs=1e-6)
    assert accepted(law, 1) == pytest.approx(0.5, abs=1e-6)


def one_draft(shared):
    """First-token law for FOUR row 0 when the draft and the residual use one number, or two."""
    target, draft = FOUR
    setting = tables(target, draft)
    cell = (torch.arange(24, dtype=torch.float64) + 0.5) / 24
    for_draft, accept, other = torch.cartesian_prod(cell, cell, cell).T
    ids = draw(draft[:1].expand(len(for_draft), 4), for_draft)[:, None]
    last = for_draft if shared else other
    uniforms = Uniforms(accept[:, None], last, other, torch.zeros(len(last), 2).double())
    verdict = judged(REJECTION, setting, 0, ids, uniforms)
    token = torch.where(verdict.n_accepted == 1, ids[:, 0], verdict.next_token)
    return (token.bincount(minlength=4) / len(token)).tolist()


def test_noise_shared_between_draft_and_residual_is_caught():
    right = FOUR[0][0].tolist()
    assert one_draft(shared=False) == pytest.approx(right, abs=1e-6)
    assert max(abs(a - b) for a, b in zip(one_draft(shared=True), right, strict=True)) > VISIBLE


def test_a_sampled_draft_declared_one_hot_is_lossless_but_accepts_less():
    # CASES B2, ALGORITHMS 1.4: it accepts at sum(p q) instead of sum(min(p, q)).
    setting = replace(tables(*FOUR), last=grid(840))
    one_hot = lambda start, ids: OneHotLaws()  # noqa: E731
    assert error(REJECTION, setting, 1, one_hot) < 1e-6
    p, q = FOUR[0][0], FOUR[1][0]
    assert accepted(block_law(REJECTION, setting, 0, 1, laws_of=one_hot), 1) == pytest.approx(
        float((p * q).sum()), abs=1e-6
    )
