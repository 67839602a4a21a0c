"""Losses against definitions in numpy and scipy, their identities, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import entr, rel_entr

from specbench.train.losses.divergences import (
    LOSSES,
    acceptance,
    forward_kl,
    jensen_shannon,
    negative_log_acceptance,
    reverse_kl,
    token_cross_entropy,
    total_variation,
)
from specbench.train.losses.rows import TargetProbs
from tests.train.losses.laws import ROWS, TOKENS, logits, softmax, target

SEEDS = range(5)
PART = 6


def test_forward_kl_is_the_cross_entropy_of_the_draft():
    probs, law = target(1)
    draft = logits(2)
    wanted = -(law * np.log(softmax(draft))).sum(1)
    np.testing.assert_allclose(forward_kl(probs, draft), wanted, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_kl_less_entropy_is_kl_and_never_negative(seed):
    probs, law = target(seed)
    draft = logits(seed + 100)
    found = (forward_kl(probs, draft) - probs.entropy()).numpy()
    np.testing.assert_allclose(found, rel_entr(law, softmax(draft)).sum(1), atol=1e-12)
    assert (found >= 0).all()
    np.testing.assert_allclose(probs.entropy(), entr(law).sum(1), atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_kl_of_a_part_counts_as_much_as_lies_inside(seed):
    probs, law = target(seed, PART)
    draft = logits(seed + 100, tokens=PART)
    inside, mass = law[:, :PART], law[:, :PART].sum(1)
    wanted = mass * -(inside / mass[:, None] * np.log(softmax(draft))).sum(1)
    np.testing.assert_allclose(forward_kl(probs, draft), wanted, rtol=1e-12)


def test_token_cross_entropy_by_hand():
    # Two rows: logits of probabilities 1/2, 1/4, 1/4 and 1/8, 1/8, 3/4.
    draft = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]], dtype=torch.float64).log()
    probs = TargetProbs(
        torch.full((2, 3), 0.2, dtype=torch.float64),
        torch.full((2,), 0.6, dtype=torch.float64),
        torch.tensor([1, -1]),
        torch.tensor([0, 0]),
    )
    found = token_cross_entropy(probs, draft)
    np.testing.assert_allclose(found, [np.log(4), 0.0], rtol=1e-12)


@pytest.mark.parametrize("drafted", [TOKENS, PART])
def test_reverse_kl(drafted):
    probs, law = target(3, drafted)
    draft = softmax(logits(4, tokens=drafted))
    mass = law[:, :drafted].sum(1)
    inside = law[:, :drafted] / mass[:, None]
    wanted = mass * rel_entr(draft, inside).sum(1)
    np.testing.assert_allclose(reverse_kl(probs, logits(4, tokens=drafted)), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_jensen_shannon_at_a_half_is_scipys_and_symmetric(seed):
    probs, law = target(seed)
    other, draft = target(seed + 100)
    found = jensen_shannon(probs, torch.from_numpy(draft).log())
    np.testing.assert_allclose(found, jensenshannon(law, draft, axis=1) ** 2, rtol=1e-9)
    back = jensen_shannon(other, torch.from_numpy(law).log())
    np.testing.assert_allclose(found, back, rtol=1e-10)


def test_jensen_shannon_with_another_share():
    probs, law = target(5)
    draft = softmax(logits(6))
    mix = 0.9 * law + 0.1 * draft
    wanted = 0.9 * rel_entr(law, mix).sum(1) + 0.1 * rel_entr(draft, mix).sum(1)
    np.testing.assert_allclose(jensen_shannon(probs, logits(6), 0.9), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drafted", [TOKENS, PART])
def test_total_variation_is_what_rejection_sampling_refuses(seed, drafted):
    probs, law = target(seed, drafted)
    draft = np.zeros_like(law)
    draft[:, :drafted] = softmax(logits(seed + 100, tokens=drafted))
    # Both laws over the whole vocabulary sum to 1, so this is the usual half of the L1 distance.
    wanted = np.abs(law - draft).sum(1) / 2
    found = total_variation(probs, logits(seed + 100, tokens=drafted))
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert ((found >= 0) & (found <= 1)).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_of_the_total_variation(seed):
    probs, law = target(seed)
    draft = logits(seed + 100)
    distance = total_variation(probs, draft).numpy()
    for divergence in (rel_entr(law, softmax(draft)), rel_entr(softmax(draft), law)):
        kl = divergence.sum(1)
        assert (distance <= np.sqrt(kl / 2) + 1e-12).all(), "Pinsker"
        assert (distance <= 1 - np.exp(-kl) / 2 + 1e-12).all(), "Bretagnolle and Huber"


def test_negative_log_acceptance_keeps_a_gradient_where_almost_nothing_is_accepted():
    probs = TargetProbs(
        torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1), torch.tensor([0]), torch.tensor([0])
    )
    draft = torch.tensor([[-30.0, 0.0, 0.0]], requires_grad=True)
    loss = negative_log_acceptance(probs, draft)
    # sum min = q_0 = e^-30 / (2 + e^-30); d(-log q_0) / d logits = q - (1, 0, 0).
    np.testing.assert_allclose(loss.item(), 30 + np.log(2), rtol=1e-6)
    (gradient,) = torch.autograd.grad(loss.sum(), draft)
    np.testing.assert_allclose(gradient, [[-1.0, 0.5, 0.5]], atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("drafted", [TOKENS, PART])
def test_gradients(name, drafted):
    probs, _ = target(7, drafted)
    draft = logits(8, tokens=drafted).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: LOSSES[name](probs, rows), (draft,))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("drafted", [TOKENS, PART])
def test_a_constant_on_all_logits_changes_nothing(name, drafted):
    probs, _ = target(9, drafted)
    draft = logits(10, tokens=drafted)
    moved = LOSSES[name](probs, draft + 3.5)
    np.testing.assert_allclose(moved, LOSSES[name](probs, draft), rtol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_padding_that_was_masked_gives_no_nan(name):
    probs, _ = target(11)
    padded = torch.cat([probs.probs, torch.zeros(ROWS, 2, dtype=torch.float64)], 1).float()
    draft = torch.full((ROWS, TOKENS + 2), torch.finfo(torch.float32).min)
    draft[:, :TOKENS] = logits(12).float()
    draft.requires_grad_()
    wide = TargetProbs(padded, probs.mass.float(), probs.token, probs.best)
    found = LOSSES[name](wide, draft)
    np.testing.assert_allclose(
        found.detach(), LOSSES[name](probs, logits(12)), rtol=1e-4, atol=1e-5
    )
    (gradient,) = torch.autograd.grad(found.sum(), draft)
    assert torch.isfinite(gradient).all()
    assert (gradient[:, TOKENS:] == 0).all()


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"token_cross_entropy"}))
@pytest.mark.parametrize("drafted", [TOKENS, PART])
def test_the_least_loss_is_at_the_targets_own_law(name, drafted):
    probs, _ = target(13, drafted)
    same = probs.probs.log()
    least = LOSSES[name](probs, same)
    for seed in SEEDS:
        nearby = same + 0.1 * logits(seed, tokens=drafted)
        assert (LOSSES[name](probs, nearby) >= least - 1e-12).all()


def test_nothing_inside_counts_nothing():
    empty = TargetProbs(torch.zeros(1, 3), torch.zeros(1), torch.tensor([-1]), torch.tensor([-1]))
    draft = torch.tensor([[1.0, 0.0, -1.0]])
    # What is refused for sure has a total variation of 1, whatever is drafted.
    for name in sorted(LOSSES.keys() - {"total_variation"}):
        assert LOSSES[name](empty, draft).item() == 0.0, name
    assert acceptance(empty, draft).item() == 0.0


def test_a_position_outside_the_vocabulary_pulls_as_little_as_it_has_inside():
    draft = torch.tensor([[1.0, 0.0, -1.0]], requires_grad=True)
    pulls = []
    for mass in (1.0, 1e-3):
        probs = TargetProbs(
            torch.tensor([[0.0, mass, 0.0]]), torch.tensor([mass]), torch.ones(1), torch.ones(1)
        )
        (gradient,) = torch.autograd.grad(negative_log_acceptance(probs, draft).sum(), draft)
        pulls.append(float(gradient.norm()))
    # q of the token is 0.245: where the target has less than that, min(p, q) is p already.
    assert pulls[0] > 0.5
    assert pulls[1] == 0.0
