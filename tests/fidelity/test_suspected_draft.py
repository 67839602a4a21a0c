"""Bets on a suspected draft: valid where nothing was drafted, and they find leniency."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.verdict import Status, judge
from tests.fidelity.simulated import evidence, rows, speculate

ALPHA = 1e-3


def outputs(seed, n, lenience):
    """Columns of n tokens of which four in five were drafted, as if all had been."""
    rng = np.random.default_rng([seed, 7])
    known = rows(seed, n, v=32, noise=0.8)
    assert 0.7 < known.drafted.mean() < 0.9
    ids = speculate(known, rng, lenience=lenience)
    suspected = replace(known, drafted=np.ones(n, dtype=bool))
    return evidence(suspected, ids, rng)


@pytest.mark.parametrize("seed", range(4))
def test_leniency_is_found_though_nobody_says_where_drafts_were(seed):
    # 526 tokens where all are drafted (docs/fidelity.md); drafts at 4 of 5 need 1.6 times as many.
    process = EProcess()
    process.update(outputs(seed, 6000, 0.8))
    assert process.detected_at(ALPHA) < 4 * 1.6 * 526


@pytest.mark.parametrize("seed", range(4))
def test_exact_acceptance_passes(seed):
    found = judge({"cell": outputs(seed, 6000, 1.0)}, 0.01)["cell"]
    assert found.status is Status.PASSED
    assert {test.name for test in found.tests} == {
        "support", "pit", "surprisal", "draft_bias", "eprocess",
    }  # fmt: skip
