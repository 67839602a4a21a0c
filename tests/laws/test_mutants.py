"""Wrong rules that the law check must catch; acceptance alone shows none of them."""

from dataclasses import replace

import pytest
import torch

from specbench.decoding.protocols import BONUS
from specbench.decoding.sampling import draw
from specbench.laws.chains import chain_law
from specbench.laws.mutants import DEFECTS, VISIBLE, mutant_error, residual_from_target, unseen
from specbench.laws.noise_defects import (
    KEYED,
    keyed_noise_error,
    keyed_noise_law,
    reads_behind,
    shared_noise_error,
)
from specbench.laws.outputs import conditional_distance, distance, own_law
from specbench.laws.rules import RuleSampler
from specbench.laws.tables import FOUR_DRAFT, FOUR_TARGET, SAMPLED
from specbench.verify.block import RULE as BLOCK
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.laws.laws_of import first_token, kept, table

RIGHT = RuleSampler(REJECTION)


def error(sampler, setting):
    """Distance from the target over three rounds, worst start."""
    law = chain_law(sampler, setting)
    return distance(law.chained(setting.length), own_law(setting.target, setting.length))


def test_the_right_rule_passes_the_same_check():
    assert all(error(RIGHT, setting) < 1e-6 for setting in SAMPLED)


def told(setting, rows):
    """Law of one round when the rule is told other draft rows than drafts are drawn from."""
    return chain_law(lambda given: RIGHT(replace(given, draft=rows)), setting)


@pytest.mark.parametrize(
    ("p", "processed", "raw", "law", "acceptance"),
    [
        # B1: drafts behind top-k, the ratio sees the softmax before it.
        (
            [0.4, 0.6, 0.0, 0.0],
            [0.625, 0.375, 0.0, 0.0],
            [0.5, 0.3, 0.15, 0.05],
            [0.5, 0.5, 0.0, 0.0],
            0.875,
        ),
        # B2: an argmax draft scored with its softmax.
        ([0.51, 0.49], [1.0, 0.0], [0.51, 0.49], [1.0, 0.0], 1.0),
        ([0.5, 0.5], [1.0, 0.0], [0.6, 0.4], [5 / 6, 1 / 6], 5 / 6),
    ],
)
def test_b1_b2_a_ratio_with_other_rows_gives_the_published_wrong_law(
    p, processed, raw, law, acceptance
):
    found = told(table(p, processed), table(raw, raw).draft)
    assert first_token(found) == pytest.approx(law, abs=1e-6)
    assert kept(found, 1) == pytest.approx(acceptance, abs=1e-6)


def test_b3_residual_from_the_target_gives_the_published_wrong_law():
    def spoiled(given):
        return residual_from_target(given, RIGHT(given), given.last)

    law = chain_law(spoiled, table([0.3, 0.7], [0.8, 0.2]))
    assert first_token(law) == pytest.approx([0.45, 0.55], abs=1e-6)
    assert kept(law, 1) == pytest.approx(0.5, abs=1e-6)


def bonus_from_the_last_judged_position(tree, trials, rows, laws, states, uniforms):
    verdict, states = REJECTION(tree, trials, rows, laws, states, uniforms)
    wrong = draw(rows.at((verdict.n_accepted - 1).clamp(min=0)), uniforms.bonus)
    token = torch.where(verdict.kind == BONUS, wrong, verdict.next_token)
    return replace(verdict, next_token=token), states


def test_bonus_from_the_wrong_position_is_caught():
    bonus_from_the_last_judged_position.info = REJECTION.info
    sampler = RuleSampler(bonus_from_the_last_judged_position)
    assert error(sampler, SAMPLED[0]) > VISIBLE
    assert error(sampler, SAMPLED[1]) > VISIBLE


@pytest.mark.parametrize("mutant", DEFECTS, ids=lambda mutant: mutant.name)
def test_planted_defects_show_in_rejection(mutant):
    assert mutant_error(mutant, RIGHT) > VISIBLE
    assert not unseen(mutant, RIGHT, seed=1)


def test_defects_of_draft_rows_leave_no_trace_in_target_match():
    # CASES B2, ALGORITHMS 1.4: it never reads draft probabilities, and is exact without them.
    sampler = RuleSampler(TARGET_MATCH)
    for mutant in DEFECTS[:2]:
        assert mutant_error(mutant, sampler) == 0
        assert unseen(mutant, sampler, seed=1)


@pytest.mark.parametrize("rule", [REJECTION, BLOCK, TARGET_MATCH])
def test_noise_shared_between_draft_and_residual_is_caught(rule):
    assert shared_noise_error(RuleSampler(rule)) > VISIBLE


def test_noise_keyed_by_position_shows_in_block_verification_alone():
    """By hand: the first round emits one token iff it drafted (0, 0) and its second test failed.

    That has the chance 4/9 * 3/4 = 1/3, and keyed noise then drafts token 0 again, of which token 0
    comes out with 2/3 * 1/4 + 1/3 = 1/2 instead of 1/3: 1/3 + 1/3 * (1/2 - 1/3) = 7/18.
    """
    law = keyed_noise_law(RuleSampler(BLOCK))
    assert law[0].view(2, 2).sum(0).tolist() == pytest.approx([7 / 18, 11 / 18], abs=1e-6)
    for rule in (REJECTION, TARGET_MATCH):
        assert keyed_noise_error(RuleSampler(rule)) < 1e-6
        assert not reads_behind(RuleSampler(rule), seed=1)
    assert reads_behind(RuleSampler(BLOCK), seed=1)
    assert KEYED.target[0].tolist() == pytest.approx([1 / 3, 2 / 3])


def test_a_sampled_draft_declared_one_hot_is_lossless_but_accepts_less():
    # CASES B2, ALGORITHMS 1.4: it accepts at sum(p q) instead of sum(min(p, q)).
    setting = SAMPLED[1]
    law = chain_law(lambda given: RIGHT(replace(given, sampled=False)), setting)
    assert conditional_distance(law, [setting.target] * 3) < 1e-6
    expected = (FOUR_TARGET[0] * FOUR_DRAFT[0]).sum()
    assert float(law.emits(2)[0]) == pytest.approx(float(expected), abs=1e-6)
