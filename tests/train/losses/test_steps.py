"""Weights of steps and heads, by hand."""

from __future__ import annotations

import pytest

from specbench.train.losses.steps import step_weights


def test_decay():
    assert step_weights(3, 0.5, normalised=False) == [1.0, 0.5, 0.25]


def test_fast_mtps_weights():
    # FastMTP prints .51, .31, .18 for decay 0.6 over three steps.
    found = step_weights(3, 0.6, normalised=True)
    assert found == pytest.approx([0.51, 0.31, 0.18], abs=5e-3)
    assert sum(found) == pytest.approx(1)
