"""Error spending, the jackknife's bounds, and what looks together really err: by simulation."""

from itertools import pairwise

import numpy as np
import pytest

from specbench.stats.jackknife import Estimate, jackknife
from specbench.stats.ratios import QUOTIENT
from specbench.stats.spending import added, spent

LOOKS = 5


def test_looks_spend_the_square_of_their_share():
    shares = [number / LOOKS for number in range(LOOKS + 1)]
    steps = [added(0.001, one, other) for one, other in pairwise(shares)]
    # (2n - 1) / 25 of the whole.
    assert steps == pytest.approx([4e-5, 12e-5, 20e-5, 28e-5, 36e-5])
    assert spent(0.001, 2.0) == 0.001


def test_the_last_look_has_what_is_left_whenever_it_comes():
    assert added(0.02, 0.0, 0.4) + added(0.02, 0.4, 1.0) == pytest.approx(0.02)


def test_of_a_mean_the_jackknife_is_the_textbook_error():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = jackknife((values, np.ones(4)), QUOTIENT)
    # Deviations -3, -2, 0, 5: variance 38 / 3 of one, a quarter of it of the mean.
    assert found.value == 4.0
    assert found.error == pytest.approx((38 / 3 / 4) ** 0.5)
    # 16^2 / (1 + 4 + 16 + 81) of the values is less than 4 of the ones.
    assert found.effective == pytest.approx(256 / 102)
    # Student's t of 3 degrees of freedom, from its table.
    assert Estimate(4.0, 2.0, 4, 4.0).half_width(0.025) == pytest.approx(2 * 3.182, abs=2e-3)


def test_what_has_no_spread_or_no_units_to_show_one():
    same = jackknife((np.full(9, 3.0), np.full(9, 2.0)), QUOTIENT)
    assert same.half_width(1e-6) == 0.0
    alone = jackknife((np.array([3.0]), np.array([2.0])), QUOTIENT)
    assert alone.half_width(0.4) == np.inf


def alarms(rng, spread_of_lengths, prompts=40, total=0.05):
    """One run at the border: prompts differ in length, both arms take equally long on average.

    Returns whether a look at its own share of the rate, and one at all of it, found a difference.
    """
    lengths = rng.lognormal(0, spread_of_lengths, prompts)
    new, base = (lengths * rng.lognormal(0, 0.2, prompts) for _ in range(2))
    own = whole = False
    for number in range(1, LOOKS + 1):
        seen = prompts * number // LOOKS
        found = jackknife((new[:seen], base[:seen]), QUOTIENT.log)
        tail = added(total, (number - 1) / LOOKS, number / LOOKS)
        own |= found.value > found.half_width(tail)
        whole |= found.value > found.half_width(total)
    return own, whole


@pytest.mark.parametrize("spread_of_lengths", [0.3, 1.0])
def test_five_looks_raise_no_more_false_alarms_than_one_may(spread_of_lengths):
    rng = np.random.default_rng(3)
    runs = 900
    own, whole = np.mean([alarms(rng, spread_of_lengths) for _ in range(runs)], axis=0)
    # Three deviations of a share of 5 % above it.
    assert own <= 0.05 + 3 * (0.05 * 0.95 / runs) ** 0.5
    # Without spending they raise more: 13 % where units are many and alike (Armitage and others).
    assert whole >= 0.08
