"""The integrator against volumes known by hand; what it cannot cut, it must own up to."""

import numpy as np
import pytest
import torch

from specbench.laws.cells import NoStepFunctionError
from specbench.laws.integrate import integrate


def volumes(found, context=0):
    """Volume of every code in one context."""
    total = {}
    for at, code, volume in zip(
        found.context.tolist(), found.code.tolist(), found.volume.tolist(), strict=True
    ):
        if at == context:
            total[code] = total.get(code, 0.0) + volume
    return total


def test_thresholds_that_differ_between_contexts():
    borders = torch.tensor([0.1234567, 0.9, 1 / 3], dtype=torch.float64)
    found = integrate(lambda c, p: (p[:, 0] < borders[c]).long(), 3, 1)
    assert float(found.doubt.max()) == 0
    for context, border in enumerate(borders.tolist()):
        expected = {1: border, 0: 1 - border}
        assert volumes(found, context) == pytest.approx(expected, abs=1e-8)


def test_a_second_number_that_matters_on_one_side_of_the_first_alone():
    def judge(context, points):
        first, second = points.T
        return torch.where(first < 0.3, 7, torch.where(second < 0.25, 8, 9))

    expected = {7: 0.3, 8: 0.7 * 0.25, 9: 0.7 * 0.75}
    assert volumes(integrate(judge, 1, 2)) == pytest.approx(expected, abs=1e-8)


def test_a_first_number_that_matters_only_where_later_ones_fail():
    """As in block verification: the last test that passes decides."""

    def judge(context, points):
        passed = points < torch.tensor([0.6, 0.5, 0.2], dtype=torch.float64)
        return (passed * torch.arange(1, 4)).amax(1)

    expected = {3: 0.2, 2: 0.8 * 0.5, 1: 0.8 * 0.5 * 0.6, 0: 0.8 * 0.5 * 0.4}
    assert volumes(integrate(judge, 1, 3)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_inverse_cdf_draws_with_many_jumps_on_a_line(seed):
    weights = np.random.default_rng(seed).dirichlet(np.ones(9))
    weights[3] = 0
    weights /= weights.sum()
    steps = torch.from_numpy(weights.cumsum())
    found = integrate(lambda c, p: torch.searchsorted(steps, p[:, 0], right=True), 1, 1)
    expected = {code: p for code, p in enumerate(weights) if p > 0}
    assert volumes(found) == pytest.approx(expected, abs=1e-8)


def test_the_volumes_of_a_context_fill_the_cube():
    found = integrate(lambda c, p: (p < 0.37).sum(1) + 5 * c, 2, 4)
    for context in range(2):
        assert sum(volumes(found, context).values()) == pytest.approx(1.0, abs=1e-12)


def test_a_border_that_slants_is_doubted():
    found = integrate(lambda c, p: (p[:, 0] < p[:, 1]).long(), 1, 2)
    assert float(found.doubt[0]) > 0.01


def test_an_island_that_the_first_look_misses_is_found_by_the_second():
    """Code 1 only where three later numbers are all in the middle; no corner shows it."""

    def judge(context, points):
        island = ((points[:, 1:] - 0.5).abs() < 0.24).all(1) & ((points[:, 0] - 0.5).abs() < 0.2)
        return island.long()

    found = integrate(judge, 1, 4)
    assert float(found.doubt.max()) == 0
    assert volumes(found)[1] == pytest.approx(0.4 * 0.48**3, abs=1e-8)


def test_an_output_that_jumps_everywhere_is_refused():
    def judge(context, points):
        return (points * 1e9).long().sum(1) % 7

    with pytest.raises(NoStepFunctionError, match="no step function"):
        integrate(judge, 500, 2)


def test_no_number_at_all():
    found = integrate(lambda c, p: c * 2, 3, 0)
    assert (found.code.tolist(), found.volume.tolist()) == ([0, 2, 4], [1.0, 1.0, 1.0])
