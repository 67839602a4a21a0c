"""Evidence from the listed part of a row: by hand, and against whole rows of random laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.core.request import Sampling
from specbench.fidelity.kept import Range, TopRow, kept
from specbench.fidelity.top_rows import greedy_row, row_law

HALF = Sampling(temperature=0.5)
ONE = Sampling(temperature=1.0)


def top_row(p, count, vocabulary=None, rounding=0.0):
    """The ``count`` likeliest ids of a law p, whose ids are places in it."""
    ids = np.argsort(-p, kind="stable")[:count]
    return TopRow(ids.astype(np.int64), np.log(p[ids]), vocabulary, rounding)


# Mass 0.5, 0.3 listed; 0.12 and 0.08 are the rest.
LAW = np.array([0.3, 0.08, 0.5, 0.12])


def test_at_temperature_1_the_coarser_law_is_exact():
    found = row_law(top_row(LAW, 2), 0, ONE)
    p = np.array([0.5, 0.3, 0.2])
    assert found.log_target == pytest.approx(math.log(0.3))
    assert found.entropy == pytest.approx(-(p * np.log(p)).sum())
    assert found.entropy_variance == pytest.approx((p * np.log(p) ** 2).sum() - found.entropy**2)
    assert found.sum_squares == pytest.approx(0.25 + 0.09 + 0.04)
    assert (found.pit_low, found.pit_width) == pytest.approx((0.5, 0.3))
    assert (found.target_top, found.target_top_hit, found.listed) == (pytest.approx(0.5), 0, True)
    assert (found.log_untempered, found.support_margin) == (None, None)
    doubts = (found.log_doubt, found.entropy_doubt, found.pit_doubt, found.excess)
    assert doubts == pytest.approx((0, 0, 0, 0), abs=1e-12)
    assert found.tail == pytest.approx(0.2)
    rest = row_law(top_row(LAW, 2), 3, ONE)
    assert rest.log_target == pytest.approx(math.log(0.2))
    assert (rest.pit_low, rest.pit_width) == pytest.approx((0.8, 0.2))
    assert not rest.listed


def test_bounds_of_the_rest_by_hand():
    # T = 1/2 squares. The rest has mass 0.2, each part at most 0.3: between 2 * 0.1**2 and
    # 0.2 * 0.3, over the first weight 0.25; without a vocabulary the lower end is 0.
    known = kept(top_row(LAW, 2, 4), HALF)
    assert known.weights == pytest.approx([1, 0.36])
    assert (known.rest.low, known.rest.high) == pytest.approx((0.08, 0.24))
    unknown = kept(top_row(LAW, 2), HALF)
    assert (unknown.rest.low, unknown.rest.high) == pytest.approx((0.0, 0.24))
    # T = 2 takes roots: 0.2 / sqrt(0.3) at least, 2 sqrt(0.1) at most, over sqrt(0.5).
    flatter = kept(top_row(LAW, 2, 4), Sampling(temperature=2.0)).rest
    low, high = 0.2 / math.sqrt(0.3), 2 * math.sqrt(0.1)
    assert (flatter.low, flatter.high) == pytest.approx((low / 0.5**0.5, high / 0.5**0.5))
    assert kept(top_row(LAW, 2), Sampling(temperature=2.0)).rest.high == math.inf


def test_truncations_inside_the_list_leave_nothing_to_bound():
    # Top-p 0.7 keeps 0.5 and 0.3; top-k 1 keeps 0.5; min-p 0.5 keeps what has 0.25 or more.
    for sampling, count in (
        (Sampling(temperature=1.0, top_p=0.7), 2),
        (Sampling(temperature=1.0, top_k=1), 1),
        (Sampling(temperature=1.0, min_p=0.5), 2),
        (Sampling(temperature=0.5, top_k=2), 2),
    ):
        found = kept(top_row(LAW, 3), sampling)
        assert (found.fewest, found.most, found.rest) == (count, count, Range(0.0, 0.0))


def test_a_cut_token_is_outside_by_its_distance_to_the_border():
    sampling = Sampling(temperature=1.0, top_k=1)
    found = row_law(top_row(LAW, 3), 0, sampling)
    assert found.log_target is None
    assert found.support_margin == pytest.approx(math.log(0.3 / 0.5))
    assert found.log_untempered == pytest.approx(math.log(0.3))
    # Not listed: as likely as the last that is.
    hidden = row_law(top_row(LAW, 3), 1, sampling)
    assert hidden.support_margin == pytest.approx(math.log(0.12 / 0.5))
    nucleus = row_law(top_row(LAW, 3, 4), 3, Sampling(temperature=1.0, top_p=0.7))
    assert nucleus.support_margin == pytest.approx((0.7 - 0.8) / (0.8 * 0.2))


def test_a_greedy_row_needs_two_tokens():
    found = greedy_row(top_row(LAW, 2), 2)
    assert found.margin == pytest.approx(math.log(0.5 / 0.3))
    assert (found.runner_up, found.hit) == (0, 1)
    assert greedy_row(top_row(LAW, 2), 3).hit == 0
    with pytest.raises(ValueError, match="two tokens"):
        greedy_row(top_row(LAW, 1), 2)


@pytest.mark.parametrize(
    ("ids", "logs", "message"),
    [([], [], "0 ids"), ([1], [-1.0, -2.0], "1 ids and 2"), ([1, 2], [-2.0, -1.0], "not ordered")],
)
def test_a_row_that_is_none_is_refused(ids, logs, message):
    with pytest.raises(ValueError, match=message):
        TopRow(np.array(ids, dtype=np.int64), np.array(logs))


def whole(p, sampling):
    """Temperature, top-k, top-p and min-p on a whole law, by plain sums."""
    q = p ** (1 / sampling.temperature)
    q /= q.sum()
    order = np.argsort(-q, kind="stable")
    if sampling.top_k:
        q[order[sampling.top_k :]] = 0
        q /= q.sum()
    if sampling.top_p < 1:
        before = np.concatenate([[0], q[order].cumsum()[:-1]])
        q[order[before >= sampling.top_p]] = 0
        q /= q.sum()
    if sampling.min_p:
        q[q < sampling.min_p * q.max()] = 0
        q /= q.sum()
    return q


@st.composite
def cases(draw):
    size = draw(st.integers(3, 30))
    seed = draw(st.integers(0, 2**32 - 1))
    spread = draw(st.sampled_from([0.3, 1.5, 4.0]))
    rng = np.random.default_rng(seed)
    p = np.exp(spread * rng.normal(size=size))
    p /= p.sum()
    sampling = Sampling(
        temperature=draw(st.sampled_from([0.3, 0.7, 1.0, 1.4])),
        top_k=draw(st.sampled_from([0, 2, 5, 50])),
        top_p=draw(st.sampled_from([1.0, 0.5, 0.9])),
        min_p=draw(st.sampled_from([0.0, 0.05, 0.4])),
    )
    count = draw(st.integers(1, size))
    known = draw(st.booleans())
    return p, sampling, count, size if known else None


@settings(max_examples=400, deadline=None, derandomize=True)
@given(cases())
def test_bounds_contain_the_truth(case):
    """Every number is as far from the whole row's as its bound says, at most."""
    p, sampling, count, vocabulary = case
    row = top_row(p, count, vocabulary, rounding=1e-9)
    q = whole(p, sampling)
    listed = set(row.ids.tolist())
    most = kept(row, sampling).most
    truth = np.append(q[row.ids[:most]], sum(q[i] for i in range(len(p)) if i not in listed))
    laws = [row_law(row, int(token), sampling) for token in row.ids[:most]]
    if truth[-1] > 0 or vocabulary is None:
        laws.append(row_law(row, -1, sampling))
    slack = 1e-7
    for place, law in enumerate(laws):
        if law.log_target is None:
            # Cut with certainty: the truth cuts it as well.
            assert truth[place] <= slack
            continue
        if truth[place] > 1e-8:
            assert abs(law.log_target - math.log(truth[place])) <= law.log_doubt + 1e-5
    score = [-law.log_target if law.log_target is not None else 0.0 for law in laws]
    mean = sum(t * s for t, s in zip(truth, score, strict=False))
    first = laws[0]
    assert abs(mean - first.entropy) <= first.entropy_doubt + 1e-5
    square = sum(t * (s - first.entropy) ** 2 for t, s in zip(truth, score, strict=False))
    assert square <= first.entropy_variance + 1e-5
    # The distribution function in the order of the list.
    for place, law in enumerate(laws):
        if law.log_target is not None:
            low, high = truth[:place].sum(), truth[: place + 1].sum()
            assert abs(low - law.pit_low) <= law.pit_doubt + slack
            assert abs(high - law.pit_low - law.pit_width) <= law.pit_doubt + slack
    # Bets of the e-process: half the temperature, the first choice, temperature 1.
    mass = [math.exp(-s) for s in score]
    sharper = sum(t * m / first.sum_squares for t, m in zip(truth, mass, strict=False))
    assert sharper <= 1 + first.excess + 1e-5
    assert truth[0] / first.target_top <= 1 + first.excess + 1e-5
    if first.log_untempered is not None:
        plain = [math.exp(law.log_untempered) if law.log_untempered else 0.0 for law in laws]
        bet = sum(
            t * u / m
            for t, u, m, law in zip(truth, plain, mass, laws, strict=False)
            if law.log_target is not None
        )
        assert bet <= 1 + first.excess + 1e-5


def test_a_whole_list_is_exact_under_any_setting():
    sampling = Sampling(temperature=0.7, top_p=0.9)
    row = top_row(LAW, 4, 4)
    q = whole(LAW, sampling)
    for token in range(4):
        found = row_law(row, token, sampling)
        assert found.log_doubt == found.entropy_doubt == found.excess == found.tail == 0
        if q[token]:
            assert found.log_target == pytest.approx(math.log(q[token]))
        else:
            assert found.log_target is None
