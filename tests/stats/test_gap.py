"""The smallest difference that can be shown, against the formula for equal denominators."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.stats.gap import detectable_gap


def test_equal_denominators_give_the_formula_of_a_mean():
    rng = np.random.default_rng(5)
    units, steps = 40, 20.0
    one, other = rng.normal(50, 6, units), rng.normal(40, 6, units)
    bottom = np.full(units, steps)
    found = detectable_gap(one, bottom, other, bottom, seed=1, unit="tokens/step")
    # Resampling 40 units shows the plug-in deviation of a mean; 1.960 + 0.842 are the quantiles.
    spread = np.std((one - other) / steps) / np.sqrt(units)
    assert found.number() == pytest.approx(2.802 * spread, rel=0.03)
    assert (found.unit, found.n) == ("tokens/step", units)


def test_many_tests_can_show_less():
    rng = np.random.default_rng(5)
    columns = rng.uniform(10, 20, (4, 12))
    once = detectable_gap(*columns, seed=1, unit="x").number()
    tenth = detectable_gap(*columns, seed=1, unit="x", alpha=0.005).number()
    assert tenth / once == pytest.approx((2.807 + 0.842) / (1.960 + 0.842), rel=1e-3)


def test_too_few_units_and_empty_resamples_have_no_value():
    assert not detectable_gap([1, 2], [1, 1], [1, 1], [1, 1], seed=1, unit="x").known
    empty = detectable_gap([1, 2, 3], [0, 0, 1], [1, 1, 1], [1, 1, 1], seed=1, unit="x")
    assert "no observation" in str(empty.value)
