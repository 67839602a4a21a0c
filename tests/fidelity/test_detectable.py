"""Moments of a sum under contamination, and the smallest share that is found."""

import math

import numpy as np
import pytest

from specbench.fidelity.detectable import Drift, surprisal_drift, two_valued

SHARES = [0.0, 0.2, 0.7, 1.0]


def moments(drift, share):
    constant, linear, square = drift.variance
    return drift.start + share * drift.slope, constant + linear * share + square * share**2


def by_sums(laws, tops, scores, share):
    """Mean and variance of the sum of independent scores, from the contaminated laws."""
    mean = variance = 0.0
    for law, top, score in zip(laws, tops, scores, strict=True):
        emitted = (1 - share) * law + share * np.eye(len(law))[top]
        mean += emitted @ score
        variance += emitted @ score**2 - (emitted @ score) ** 2
    return pytest.approx((mean, variance), abs=1e-12)


LAWS = np.random.default_rng(0).dirichlet(np.ones(4), size=6)
TOPS = LAWS.argmax(1)
TOP_MASS = LAWS.max(1)


@pytest.mark.parametrize("share", SHARES)
def test_two_valued_scores(share):
    step, miss = np.arange(6) + 0.5, -0.25
    scores = [miss + s * np.eye(4)[top] for s, top in zip(step, TOPS, strict=True)]
    found = two_valued(TOP_MASS, step, miss)
    assert moments(found, share) == by_sums(LAWS, TOPS, scores, share)


@pytest.mark.parametrize("share", SHARES)
def test_surprisal_scores(share):
    entropy = -(LAWS * np.log(LAWS)).sum(1)
    variance = (LAWS * (-np.log(LAWS) - entropy[:, None]) ** 2).sum(1)
    scores = entropy[:, None] + np.log(LAWS)
    found = surprisal_drift(entropy, variance, np.log(TOP_MASS))
    assert moments(found, share) == by_sums(LAWS, TOPS, scores, share)


def test_the_smallest_share():
    # 100 fair coins, sure heads as contamination: mean 50 + 50 s, variance 25 (1 - s^2).
    coins = two_valued(np.full(100, 0.5), 1.0)
    share = coins.smallest_share(62.5)
    sd = 5 * math.sqrt(1 - share**2)
    assert (50 + 50 * share - 62.5) / sd == pytest.approx(1.2815515655, abs=1e-6)
    assert coins.smallest_share(100.5) is None
    assert Drift(0.0, 1.0, (0.0, 0.0, 0.0)).smallest_share(0.25) == pytest.approx(0.25)
