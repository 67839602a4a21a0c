"""Statistics of totals, by hand."""

import math

import numpy as np
import pytest

from specbench.stats.ratios import DIFFERENCE, MEAN, QUOTIENT, RATIO_OF_RATIOS

ONE, OTHER = ([6.0, 2.0], [1.0, 3.0]), ([5.0, 7.0], [2.0, 4.0])
"""Totals 8 / 4 = 2 and 12 / 6 = 2."""


def columns(*sides):
    return [np.array(column) for side in sides for column in side]


def test_a_ratio_is_of_totals_and_no_mean_of_ratios():
    assert QUOTIENT(*columns(ONE)) == MEAN(*columns(ONE)) == 2.0
    assert RATIO_OF_RATIOS(*columns(ONE, OTHER)) == 1.0
    assert DIFFERENCE(*columns(ONE, OTHER)) == 0.0


def test_products_over_each_other():
    # (2 / 4) / (3 / 5) over (7 / 2) / (5 / 3).
    totals = [2.0, 4.0, 3.0, 5.0, 7.0, 2.0, 5.0, 3.0]
    expected = 2 / 4 / (3 / 5) / (7 / 2 / (5 / 3))
    found = RATIO_OF_RATIOS.over(RATIO_OF_RATIOS)
    assert found.at(totals) == pytest.approx(expected)
    assert found.log.at(totals) == pytest.approx(math.log(expected))
    assert DIFFERENCE.at(totals[:4]) == pytest.approx(2 / 4 - 3 / 5)


def test_of_many_resamples_at_once():
    totals = np.array([[8.0, 9.0], [4.0, 0.0]])
    assert QUOTIENT.at(totals).tolist() == [2.0, math.inf]
    assert QUOTIENT(np.ones((2, 3)), np.full((2, 3), 2.0)).tolist() == [0.5, 0.5]
