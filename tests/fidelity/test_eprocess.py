"""The e-process: exact means by enumeration, plain products, chunks, first crossings."""

import math
from functools import cache
from itertools import product

import numpy as np
import pytest

from specbench.fidelity.columns import Columns
from specbench.fidelity.eprocess import STAKES, Alternative, EProcess, log_factors, log_ratios
from tests.fidelity.simulated import Rows, cell, evidence, part, rows, softmax, speculate


def fed(*chunks):
    process = EProcess()
    for chunk in chunks:
        process.update(chunk)
    return process


def contexts(v):
    """Rows after each token; entry v is the start. Everything depends on the token before."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(v + 1, v))
    draft = softmax(logits + rng.normal(size=(v + 1, v)))
    return Rows(softmax(logits / 0.7), draft, softmax(logits), np.arange(v + 1) != v)


def path_columns(known, path):
    """Evidence of one history; tokens after id 0 have a draft, as has none the first."""
    before = [len(known) - 1, *path[:-1]]
    taken = Rows(
        known.target[before],
        known.draft[before],
        known.untempered[before],
        np.array([b == 0 for b in before]),
    )
    return evidence(taken, np.array(path), np.random.default_rng(0))


@cache
def outcomes(v, n):
    """Every history: its probability under the target, and its process."""
    known, found = contexts(v), []
    for path in product(range(v), repeat=n):
        before = [v, *path[:-1]]
        mass = math.prod(known.target[b, x] for b, x in zip(before, path, strict=True))
        found.append((mass, fed(path_columns(known, path))))
    return found


def test_the_mean_of_e_under_the_target_is_one():
    # Draft laws take part only after a token 0: alternatives enter late, and on some paths never.
    found = outcomes(3, 3)
    assert sum(mass for mass, _ in found) == pytest.approx(1, abs=1e-12)
    assert sum(mass * math.exp(e.log_e) for mass, e in found) == pytest.approx(1, abs=1e-12)
    assert {e.components for _, e in found} == {18, 36}


@pytest.mark.parametrize("alpha", [0.9, 0.7, 0.5])
def test_crossing_at_any_moment_is_as_rare_as_promised(alpha):
    found = outcomes(2, 9)
    crossed = sum(mass for mass, e in found if e.detected_at(alpha) is not None)
    assert 0 < crossed <= alpha
    assert crossed == sum(mass for mass, e in found if e.p <= alpha)


def tokens(**changed):
    """Two tokens with round numbers: target .5 and .25, everything defined."""
    values = {
        "drafted": np.array([True, True]),
        "log_target": np.log([0.5, 0.25]),
        "log_draft": np.log([0.8, 0.1]),
        "entropy": np.array([1.0, 1.0]),
        "entropy_variance": np.array([0.5, 0.5]),
        "sum_squares": np.array([0.4, 0.3]),
        "pit_low": np.array([0.0, 0.5]),
        "pit_width": np.array([0.5, 0.25]),
        "overlap_lenient": np.array([0.9, 0.6]),
        "draft_top_target": np.array([0.5, 0.2]),
        "draft_top_hit": np.array([1.0, 0.0]),
        "target_top": np.array([0.5, 0.4]),
        "target_top_hit": np.array([1.0, 0.0]),
        "log_untempered": np.log([0.3, 0.2]),
        "support_margin": np.array([np.nan, np.nan]),
        "uniform": np.array([0.5, 0.5]),
    }
    return Columns(**values | changed)


def test_e_is_the_mean_of_products_of_factors():
    ratios = {
        Alternative.DRAFT: (0.8 / 0.5, 0.1 / 0.25),
        # min(q, 2 p) + (1 - sum min) relu(p - q / 2) / sum relu, over p.
        Alternative.LENIENT: (
            (0.8 + 0.1 * (0.5 - 0.4) / (1 - 0.45)) / 0.5,
            (0.1 + 0.4 * (0.25 - 0.05) / (1 - 0.3)) / 0.25,
        ),
        Alternative.DRAFT_TOP: (1 / 0.5, 0.0),
        Alternative.TARGET_TOP: (1 / 0.5, 0.0),
        Alternative.SHARPER: (0.5 / 0.4, 0.25 / 0.3),
        Alternative.UNTEMPERED: (0.3 / 0.5, 0.2 / 0.25),
    }
    first, both = [], []
    for stake in (0.005, 0.02, 0.05, 0.1, 0.2, 0.4):
        for one, two in ratios.values():
            first.append(1 - stake + stake * one)
            both.append(first[-1] * (1 - stake + stake * two))
    process = fed(tokens())
    assert process.log_e == pytest.approx(math.log(sum(both) / 36), abs=1e-14)
    assert process.max_log_e == pytest.approx(math.log(sum(first) / 36), abs=1e-14)
    assert process.p == pytest.approx(36 / sum(first), abs=1e-14)
    assert (process.n, process.components) == (2, 36)
    found = np.exp(log_ratios(tokens())).T
    np.testing.assert_allclose(found, list(ratios.values()), atol=1e-14)


def test_an_alternative_that_comes_late_takes_an_equal_share_of_the_wealth():
    late = tokens(drafted=np.array([False, True]))
    stakes = np.array([0.005, 0.02, 0.05, 0.1, 0.2, 0.4])
    one = {a: 1 - stakes + stakes * r for a, r in (("top", 2.0), ("sharp", 1.25), ("un", 0.6))}
    two = {
        a: 1 - stakes + stakes * r
        for a, r in (("draft", 0.4), ("top", 0.0), ("sharp", 5 / 6), ("un", 0.8))
    }
    two["lenient"] = 1 - stakes + stakes * (0.1 + 0.4 * 0.2 / 0.7) / 0.25
    two["draft_top"] = two["top"]
    wealth = sum(one[a].sum() for a in one) / 18
    kept = sum((one[a] * two[a]).sum() for a in one) / 18 * 3 / 6
    entered = wealth / 6 * sum(two[a].mean() for a in ("draft", "lenient", "draft_top"))
    process = fed(late)
    assert process.log_e == pytest.approx(math.log(kept + entered), abs=1e-14)
    assert process.components == 36


def test_tokens_outside_the_support_and_impossible_first_choices_multiply_by_one():
    outside = tokens(log_target=np.array([np.log(0.5), -np.inf]))
    assert fed(outside).log_e == fed(part(outside, slice(1))).log_e
    assert np.isnan(log_ratios(tokens(draft_top_target=np.zeros(2)))[:, 2]).all()


def test_any_division_into_chunks_gives_the_same_result():
    whole = cell(rows(1, 9000), speculate, 2, lenience=0.7)
    once = fed(whole)
    split = fed(*(part(whole, slice(i, i + 700)) for i in range(0, 9000, 700)))
    single = fed(*(part(whole, slice(i, i + 1)) for i in range(500)), part(whole, slice(500, None)))
    for other in (split, single):
        assert other.log_e == pytest.approx(once.log_e, abs=1e-9)
        assert other.max_log_e == pytest.approx(once.max_log_e, abs=1e-9)
        assert other.detected_at(1e-3) == once.detected_at(1e-3) is not None


def test_the_first_crossing():
    whole = cell(rows(1, 3000), speculate, 2, greedy_draft=True)
    process = fed(whole)
    for alpha in (0.5, 0.01, 1e-6):
        index = process.detected_at(alpha)
        limit = -math.log(alpha)
        assert fed(part(whole, slice(index + 1))).log_e >= limit
        assert fed(part(whole, slice(index))).max_log_e < limit
    assert process.detected_at(1e-300) is None


def test_nothing_seen_and_nothing_to_bet_on():
    empty = EProcess()
    assert (empty.log_e, empty.max_log_e, empty.p, empty.n) == (0.0, 0.0, 1.0, 0)
    assert empty.detected_at(0.5) is None
    empty.update(part(tokens(), slice(0)))
    assert (empty.n, empty.components) == (0, 0)
    absent = np.full(2, np.nan)
    idle = fed(tokens(drafted=np.zeros(2, bool), target_top=absent, log_untempered=absent))
    assert idle.components == len(STAKES)


def test_factors_never_overflow():
    found = log_factors(np.array([[0.0, -np.inf, 5000.0]]))
    assert (found[0, 0] == 0).all()
    np.testing.assert_allclose(found[0, 1], np.log1p(-STAKES))
    np.testing.assert_allclose(found[0, 2], 700 + np.log(STAKES))


def test_defects_grow_and_honest_runs_do_not():
    known = rows(5, 2000)
    honest = [fed(cell(known, speculate, seed)).max_log_e for seed in range(20)]
    assert max(honest) < math.log(1000)
    for defect in ({"residual_is_target": True}, {"target": known.untempered}):
        assert fed(cell(known, speculate, 0, **defect)).max_log_e > 20
