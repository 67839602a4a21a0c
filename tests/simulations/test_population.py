"""The simulated experiments' true values: against hand sums, closed forms and what is drawn."""

from dataclasses import replace

import numpy as np
import pytest

from scripts.simulations.drawing import (
    draw_counts,
    draw_lengths,
    draw_ms,
    draw_own,
    draw_prompts,
)
from scripts.simulations.population import (
    Arm,
    Noise,
    Population,
    expected,
    length_shares,
    steps_needed,
    worse_by,
)

POPULATION = Population("chat")
ARM = Arm(k=4, step_ms=12.0, own_spread=0.05)


def test_steps_of_short_answers_by_hand():
    a = 0.6
    (found,) = steps_needed(np.array([a]), 1, 4)
    # One token: one step. Two: one more where the draft is wrong. Three: after one token two are
    # left, after two tokens one.
    assert found == pytest.approx([1, 2 - a, 1 + (1 - a) * (2 - a) + a])


def test_long_answers_commit_a_truncated_geometric_mean_per_step():
    a, k = np.array([0.3, 0.8]), 5
    found = steps_needed(a, k, 4001)
    # The renewal theorem; (1 - a^(K + 1)) / (1 - a) tokens per step (Leviathan and others).
    rate = found[:, -1] - found[:, 1999]
    assert 2000 / rate == pytest.approx((1 - a ** (k + 1)) / (1 - a), rel=1e-9)


def test_without_drafts_every_token_is_a_step():
    found = expected(POPULATION, Arm())
    assert found.steps == pytest.approx(found.tokens)


def test_drafts_that_are_always_right_need_a_step_per_k_plus_one():
    (found,) = steps_needed(np.array([1.0]), 3, 10)
    assert found == pytest.approx([1, 1, 1, 1, 2, 2, 2, 2, 3])


def test_shares_of_lengths():
    share = length_shares(POPULATION, np.array([-2.0, 0.0, 3.0]))
    assert share.shape == (3, POPULATION.longest - 1)
    assert share.sum(axis=1) == pytest.approx([1, 1, 1])
    # Half of the answers that do not end at once are longer than the median; 90 tokens, 89 behind
    # the first, and half of those of exactly 90 to either side.
    late = (1 - POPULATION.early) / 2
    assert share[1, 89:].sum() + share[1, 88] / 2 == pytest.approx(late, rel=2e-3)


def test_more_nodes_change_no_ratio():
    one, other = expected(POPULATION, ARM), expected(POPULATION, ARM, nodes=96)
    assert one.tokens / one.steps == pytest.approx(other.tokens / other.steps, rel=1e-6)
    assert one.ms / one.tokens == pytest.approx(other.ms / other.tokens, rel=1e-6)


def test_what_is_drawn_has_these_totals():
    rng = np.random.default_rng(4)
    prompts = draw_prompts(POPULATION, 1, 60_000, rng)
    counts = draw_counts(prompts, draw_lengths(prompts, rng), ARM, rng)
    ms = draw_ms(prompts, counts, ARM, draw_own(prompts, ARM, rng), rng)
    truth = expected(POPULATION, ARM)
    pairs = (counts.tokens, truth.tokens), (counts.steps, truth.steps), (ms, truth.ms)
    for values, mean in pairs:
        # A prompt has its requests together: the error of a ratio of totals.
        (total,), (number,) = prompts.totals(values), prompts.totals(np.ones(len(ms)))
        error = np.sqrt(((total - mean * number) ** 2).sum()) / number.sum()
        assert abs(values.mean() - mean) < 4 * error
        assert error < 0.01 * mean


def test_what_was_accepted_is_what_was_expected():
    rng = np.random.default_rng(5)
    prompts = draw_prompts(POPULATION, 1, 20_000, rng)
    counts = draw_counts(prompts, draw_lengths(prompts, rng), ARM, rng)
    chance = prompts.accepts[prompts.prompt]
    rest = counts.accepted - chance * counts.judged
    # Each look at a draft is right with this chance, and whether there is one more hangs on the
    # looks before alone.
    assert abs(rest.sum()) < 4 * np.sqrt((chance * (1 - chance) * counts.judged).sum())
    assert (counts.accepted + counts.steps >= counts.tokens).all()
    assert (counts.accepted + counts.steps <= counts.tokens + ARM.k).all()


def test_stalls_and_the_lognormal_have_the_stated_mean():
    rng, noise = np.random.default_rng(6), Noise(spread=0.1, stalls=0.3, size=0.5, shape=6.0)
    flat = replace(POPULATION, cost_spread=0.0, cost_by_length=0.0)
    prompts = draw_prompts(flat, 1, 30_000, rng)
    tokens = np.ones(len(prompts.prompt), np.int64)
    arm = Arm(step_ms=2.0)
    own = draw_own(prompts, arm, rng)
    ms = draw_ms(prompts, draw_counts(prompts, tokens, arm, rng), arm, own, rng, noise)
    # 1 + 0.3 x 0.5 / 5: the mean of a Lomax variable of exponent 6 is a fifth of its scale.
    assert noise.mean == pytest.approx(1.03)
    assert ms.mean() == pytest.approx(2 * 1.03, abs=4 * ms.std() / len(ms) ** 0.5)


def test_an_arm_at_the_border_is_so_much_worse():
    plain, before = expected(POPULATION, Arm()), expected(POPULATION, ARM)
    after = expected(POPULATION, worse_by(POPULATION, ARM, 0.98, 0.95))
    lengths = [one.tokens / one.steps for one in (before, after)]
    speedups = [plain.ms / plain.tokens / (one.ms / one.tokens) for one in (before, after)]
    assert lengths[1] / lengths[0] == pytest.approx(0.98, rel=1e-8)
    assert speedups[1] / speedups[0] == pytest.approx(0.95, rel=1e-8)


def test_a_seed_gives_the_same_experiments():
    def drawn():
        rng = np.random.default_rng(7)
        prompts = draw_prompts(POPULATION, 3, 5, rng)
        counts = draw_counts(prompts, draw_lengths(prompts, rng), ARM, rng)
        return prompts.totals(draw_ms(prompts, counts, ARM, draw_own(prompts, ARM, rng), rng))

    one, other = drawn(), drawn()
    assert one.shape == (3, 5)
    assert (one == other).all()
