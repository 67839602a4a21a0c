"""The token-level tests: formulas by hand, level, and power at the size they claim to find."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from specbench.fidelity import conditional
from specbench.fidelity.columns import Columns
from tests.fidelity.simulated import (
    Rows,
    cell,
    evidence,
    part,
    pick,
    rows,
    softmax,
    speculate,
)

ALPHA = 0.0025
KNOWN = rows(5, 400)
HONEST = cell(KNOWN, speculate, 1)


def three(**changed):
    """Three tokens with round numbers, two of them drafted, none outside the support."""
    values = {
        "drafted": np.array([False, True, True]),
        "log_target": np.log([0.5, 0.25, 0.125]),
        "log_draft": np.array([np.nan, -1.0, -1.0]),
        "entropy": np.array([0.5, 1.0, 2.0]),
        "entropy_variance": np.array([0.25, 0.0, 0.75]),
        "sum_squares": np.array([0.4, 0.3, 0.2]),
        "pit_low": np.array([0.0, 0.5, 0.8]),
        "pit_width": np.array([0.5, 0.25, 0.125]),
        "overlap_lenient": np.full(3, 0.75),
        "draft_top_target": np.array([np.nan, 0.25, 0.4]),
        "draft_top_hit": np.array([np.nan, 1.0, 0.0]),
        "target_top": np.array([0.5, 0.6, 0.3]),
        "target_top_hit": np.array([1.0, 0.0, 0.0]),
        "log_untempered": np.full(3, np.nan),
        "support_margin": np.full(3, np.nan),
        "uniform": np.array([0.2, 0.4, 0.8]),
    }
    return Columns(**values | changed)


def test_pit_by_hand():
    # U = .1, .6, .9 against 0, 1/3, 2/3, 1: the largest distance is .6 - 1/3 at the second.
    found = conditional.pit(three(), 0.01)
    assert (found.n, found.statistic) == (3, pytest.approx(0.6 - 1 / 3))
    # P(D_1 >= d) for one number: 2 (1 - d) for d >= 1/2.
    single = conditional.pit(part(three(), slice(2, 3)), 0.01)
    assert single.p == pytest.approx(2 * (1 - 0.9))
    assert single.detectable is None


def test_pit_detects_critical_distance_plus_spread():
    # Kolmogorov's limit: P(sqrt(n) D > 1.6276) = .01.
    known = cell(rows(3, 4000), speculate, 1)
    found = conditional.pit(known, 0.01).detectable
    assert found == pytest.approx((1.6276 + 1.2816 / 2) / math.sqrt(4000), rel=0.01)


def test_randomisation_makes_the_pit_uniform():
    coin = Rows(*[np.tile([0.3, 0.7], (5000, 1))] * 3, np.zeros(5000, bool))
    tossed = cell(coin, lambda known, rng: pick(known.target, rng), 4)
    assert conditional.pit(tossed, 0.01).p > 0.01
    fixed = replace(tossed, uniform=np.full(5000, 0.5))
    assert conditional.pit(fixed, 0.01).p < 1e-9


def test_surprisal_by_hand():
    # The second token is without chance; -log .5 - .5 and -log .125 - 2 over sqrt(.25 + .75).
    found = conditional.surprisal(three(), 0.01)
    assert found.n == 2
    assert found.statistic == pytest.approx(math.log(2) - 0.5 + math.log(8) - 2)
    # Skewness (.25**2 / .5 + .75**2 / 2) / 1 is within bounds.
    law = stats.pearson3(0.0625 / 0.5 + 0.5625 / 2)
    assert found.p == pytest.approx(2 * law.sf(found.statistic))


def test_surprisal_of_long_runs_is_normal():
    known = cell(rows(3, 20_000), speculate, 8, target=rows(3, 20_000, temperature=0.65).target)
    found = conditional.surprisal(known, 0.01)
    surprise = -known.log_target - known.entropy
    z = surprise.sum() / math.sqrt(known.entropy_variance.sum())
    assert found.statistic == pytest.approx(z)
    assert found.statistic < -3
    assert found.p == pytest.approx(2 * stats.norm.sf(-z), rel=0.3)
    # Smallest defect: about (z(1 - alpha/2) + z(.9)) sd over the shift per share, times mean TV.
    slope = (known.entropy + np.log(known.target_top)).sum()
    share = (2.5758 + 1.2816) * math.sqrt(known.entropy_variance.sum()) / slope
    assert found.detectable == pytest.approx(share * (1 - known.target_top).mean(), rel=0.05)


def test_surprisal_refuses_a_handful_of_rare_tokens():
    rare = three(entropy=np.full(3, 0.01), entropy_variance=np.full(3, 0.1))
    found = conditional.surprisal(rare, 0.01)
    assert (found.n, found.p, found.detectable) == (3, 1.0, None)
    assert "skewness" in found.note


def test_surprisal_leaves_tokens_outside_the_support_to_the_support_test():
    outside = three(log_target=np.array([np.log(0.5), -1.0, -np.inf]))
    assert conditional.surprisal(outside, 0.01).n == 1


def test_draft_bias_by_hand():
    found = conditional.draft_bias(three(), 0.01)
    assert found.n == 2
    assert found.statistic == pytest.approx((1 - 0.65) / math.sqrt(0.25 * 0.75 + 0.4 * 0.6))
    # P(count >= 1) = 1 - .75 * .6 = .55 and P(count <= 1) = 1 - .1: twice the smaller is above 1.
    assert found.p == 1.0
    assert found.note == "1 hits, 0.7 expected"
    both = three(draft_top_hit=np.array([np.nan, 1.0, 1.0]))
    assert conditional.draft_bias(both, 0.01).p == pytest.approx(2 * 0.25 * 0.4)
    assert conditional.draft_bias(both, 0.01).detectable is None


def test_draft_bias_of_few_expected_hits():
    n = 1000
    rare = part(HONEST, np.zeros(n, int))
    rare = replace(
        rare,
        drafted=np.ones(n, bool),
        draft_top_target=np.full(n, 1e-4),
        draft_top_hit=np.repeat([1.0, 0.0], [3, n - 3]),
    )
    found = conditional.draft_bias(rare, 0.01)
    assert found.p == pytest.approx(2 * stats.poisson.sf(2, 0.1), rel=0.01)
    # Two hits have tail 4.7e-3, below .01 / 2; two or more come with 90 % chance at mean 3.89.
    assert stats.poisson.sf(1, 0.1) == pytest.approx(4.7e-3, rel=0.01)
    assert found.detectable == pytest.approx(3.89 / n, rel=0.15)


def test_draft_bias_detects_the_normal_formula_in_long_runs():
    known = cell(rows(3, 20_000), speculate, 1)
    found = conditional.draft_bias(known, 0.01)
    p = known.draft_top_target[known.drafted]
    sd = math.sqrt((p * (1 - p)).sum())
    assert found.detectable == pytest.approx((2.5758 + 1.2816) * sd / 20_000, rel=0.03)
    hits = known.draft_top_hit[known.drafted].sum()
    assert found.statistic == pytest.approx((hits - p.sum()) / sd)
    assert found.p == pytest.approx(2 * stats.norm.sf(abs(found.statistic)), rel=0.05)


def test_certain_tokens_of_float32_do_not_convict():
    n = 1000
    sure = replace(
        part(HONEST, np.ones(n, int)),
        drafted=np.ones(n, bool),
        draft_top_target=np.ones(n),
        draft_top_hit=np.repeat([0.0, 1.0], [1, n - 1]),
    )
    assert conditional.draft_bias(sure, 0.01).p == pytest.approx(2 * n * 1e-7, rel=0.01)


def test_eprocess_result():
    found = conditional.eprocess(HONEST, ALPHA)
    assert found.p == pytest.approx(math.exp(-found.statistic))
    assert found.note == ""
    broken = conditional.eprocess(cell(KNOWN, speculate, 1, greedy_draft=True), ALPHA)
    assert broken.p < ALPHA
    assert broken.note.startswith("E reached 1 / alpha at token ")


def test_eprocess_detects_what_a_plain_sum_over_stakes_says():
    # Per drafted token, with the draft's first choice at share s: h log(hit) + (1 - h) log(miss).
    found = conditional.eprocess(HONEST, ALPHA)
    p = HONEST.draft_top_target[HONEST.drafted]
    share = found.detectable * len(HONEST) / (1 - p).sum()
    spare = []
    for stake in (0.005, 0.02, 0.05, 0.1, 0.2, 0.4):
        hit, miss = np.log(1 - stake + stake / p), math.log(1 - stake)
        h = (1 - share) * p + share
        mean = (h * hit + (1 - h) * miss).sum()
        spread = math.sqrt((h * (1 - h) * (hit - miss) ** 2).sum())
        spare.append(mean - 1.2815516 * spread - math.log(36 / ALPHA))
    assert max(spare) == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("name", ["pit", "surprisal", "draft_bias", "eprocess"])
def test_no_tokens_and_one_token(name):
    test = getattr(conditional, name)
    empty = test(part(three(), slice(0)), 0.01)
    assert (empty.n, empty.p, empty.detectable, empty.note) == (0, 1.0, None, "no usable token")
    single = test(part(three(), slice(2, 3)), 0.01)
    assert single.n == 1
    assert single.detectable is None


def test_which_tests_apply():
    def names(columns):
        return [test.__name__ for test in conditional.applicable(columns)]

    assert names(three()) == ["pit", "surprisal", "draft_bias", "eprocess"]
    assert names(part(three(), slice(1))) == ["pit", "surprisal", "eprocess"]
    certain = three(entropy_variance=np.zeros(3), drafted=np.zeros(3, bool))
    assert names(certain) == ["pit", "eprocess"]
    assert names(part(three(), slice(0))) == []


@pytest.mark.parametrize("name", ["pit", "surprisal", "draft_bias"])
def test_the_order_of_tokens_does_not_matter(name):
    shuffled = part(HONEST, np.random.default_rng(0).permutation(400))
    one, other = (getattr(conditional, name)(c, ALPHA) for c in (HONEST, shuffled))
    for field in ("n", "statistic", "p", "detectable"):
        assert getattr(one, field) == pytest.approx(getattr(other, field), rel=1e-9)


def peaked():
    """Rows as a language model has them: mostly certain, the draft's choice often far off."""
    rng = np.random.default_rng(1)
    logits = 5 * rng.normal(size=(400, 40))
    wrong = softmax((logits + 5 * rng.normal(size=(400, 40))) / 0.7)
    return Rows(softmax(logits / 0.7), wrong, softmax(logits), np.arange(400) % 5 != 0)


@pytest.mark.parametrize("name", ["pit", "surprisal", "draft_bias", "eprocess"])
def test_the_level_holds_where_most_tokens_are_nearly_certain(name):
    known, rng = peaked(), np.random.default_rng(4)
    false = 0
    for _ in range(300):
        ids = speculate(known, rng)
        false += getattr(conditional, name)(evidence(known, ids, rng), ALPHA).p <= 0.02
    assert false <= stats.binom.ppf(0.999, 300, 0.02)


@pytest.mark.parametrize("known", [KNOWN, peaked()], ids=["flat", "peaked"])
@pytest.mark.parametrize("name", ["surprisal", "draft_bias", "eprocess"])
def test_contamination_of_the_claimed_size_is_found(name, known):
    test = getattr(conditional, name)
    n, rng, line = len(known), np.random.default_rng(2), np.arange(len(known))
    claimed = test(evidence(known, pick(known.target, rng), rng), ALPHA).detectable
    law, where = (
        (known.target, np.ones(n, bool)) if name == "surprisal" else (known.draft, known.drafted)
    )
    first = law.argmax(1)
    share = claimed * n / (1 - known.target[line, first])[where].sum()
    found = 0
    for _ in range(120):
        moved = where & (rng.random(n) < share)
        ids = np.where(moved, first, pick(known.target, rng))
        found += test(evidence(known, ids, rng), ALPHA).p <= ALPHA
    assert found >= 0.8 * 120


def test_mass_moved_across_a_point_of_the_order_is_found_by_the_pit():
    n, rng = 400, np.random.default_rng(3)
    law = np.tile([0.25, 0.25, 0.3, 0.2], (n, 1))
    draft = np.tile([0.4, 0.3, 0.2, 0.1], (n, 1))
    known = Rows(law, draft, law, np.ones(n, bool))
    claimed = conditional.pit(evidence(known, pick(law, rng), rng), ALPHA).detectable
    # Ids come in order of draft / target; claimed mass moves from the last two to the first two.
    emitted = law + claimed * np.array([0.5, 0.5, -0.6, -0.4])
    assert emitted.min() > 0
    found = 0
    for _ in range(120):
        found += conditional.pit(evidence(known, pick(emitted, rng), rng), ALPHA).p <= ALPHA
    assert found >= 0.8 * 120
