"""Tokens outside the target's support, and ties at its border."""

from dataclasses import replace

import numpy as np
import pytest

from specbench.fidelity.support import REPLAY_TOLERANCE, support
from tests.fidelity.simulated import cell, part, rows, speculate

HONEST = cell(rows(5, 3), speculate, 1)


def test_support_counts_only_what_lies_beyond_the_tolerance():
    outside = replace(
        HONEST,
        log_target=np.array([-np.inf, -np.inf, -1.0]),
        support_margin=np.array([-0.01, -0.8, np.nan]),
    )
    own = support(outside, 0.01)
    assert (own.statistic, own.p) == (2.0, 0.0)
    replayed = support(outside, 0.01, REPLAY_TOLERANCE)
    # One of three tokens, if each came with a chance of 0.005.
    assert replayed.statistic == 1.0
    assert replayed.p == pytest.approx(1 - 0.995**3)
    assert replayed.note == "1 within 0.05 nats of the border"
    tie = replace(outside, support_margin=np.array([0.0, 0.0, np.nan]))
    assert support(tie, 0.01).p == 1.0
    assert own.detectable == pytest.approx(1 - 0.1 ** (1 / 3))
    assert support(HONEST, 0.01).statistic == 0.0


def test_a_token_outside_the_support_is_found_as_often_as_claimed():
    claimed = support(cell(rows(5, 400), speculate, 1), 0.01).detectable
    assert 1 - (1 - claimed) ** 400 == pytest.approx(0.9)


def test_a_replay_excuses_what_rounding_explains_and_no_more():
    many = cell(rows(5, 2000), speculate, 1)

    def crossed(count):
        log_target, margin = many.log_target.copy(), np.full(2000, np.nan)
        log_target[:count], margin[:count] = -np.inf, -0.5
        changed = replace(many, log_target=log_target, support_margin=margin)
        return support(changed, 1e-3, REPLAY_TOLERANCE)

    # Binomial(2000, 0.005) has mean 10 and deviation 3.2.
    assert crossed(14).p > 0.1
    assert crossed(30).p < 1e-6
    assert crossed(0).p == 1.0
    assert 0.01 < crossed(0).detectable < 0.02


def test_no_tokens():
    empty = support(part(HONEST, slice(0)), 0.01)
    assert (empty.n, empty.p, empty.detectable, empty.note) == (0, 1.0, None, "no usable token")
