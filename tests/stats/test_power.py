"""What a run could have shown, with starts of servers as a second level."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specbench.stats.power import detectable_difference


def test_starts_that_differ_widen_what_can_be_shown():
    # Two starts, one twice as fast for the arm: within each start nothing varies.
    times = [2.0] * 4 + [1.0] * 4
    ones = [1.0] * 8
    alone = detectable_difference(times, ones, ones, ones, seed=1)
    nested = detectable_difference(times, ones, ones, ones, seed=1, groups=[0] * 4 + [1] * 4)
    # Log ratios over the draws of two starts: log 2, log 1.5 (twice), log 1.
    draws = np.log([2.0, 1.5, 1.5, 1.0])
    expected = math.expm1((1.959964 + 0.841621) * draws.std())
    assert nested.number() == pytest.approx(expected, rel=0.03)
    assert nested.number() > 2 * alone.number()
