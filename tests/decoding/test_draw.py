"""The inverse-CDF draw: its law by integration, and the ends of its range."""

import numpy as np
import pytest
import torch

from specbench.decoding.sampling import draw

BELOW_ONE = float(np.nextafter(1.0, 0.0))


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("weights", [[0.0, 0.3, 0.7, 0.0], [1.0, 0.0], [0.0, 1e-30, 0.0, 1.0]])
@pytest.mark.parametrize("u", [0.0, 1e-300, 0.5, BELOW_ONE])
def test_an_id_of_weight_zero_is_never_drawn(weights, u):
    (token,) = draw(torch.tensor([weights]), numbers(u)).tolist()
    assert weights[token] > 0


def test_ends_of_the_range_give_the_first_and_last_possible_id():
    weights = torch.tensor([[0.0, 0.5, 0.25, 0.25, 0.0]])
    assert draw(weights, numbers(0.0)).tolist() == [1]
    assert draw(weights, numbers(BELOW_ONE)).tolist() == [3]


@pytest.mark.parametrize("total", [1.0, 0.125, 40.0])
def test_law_equals_the_weights_on_a_grid(total):
    # Multiples of 1/16 lie on the grid's cell borders, so counting midpoints is exact.
    law = torch.tensor([3, 0, 1, 7, 5]) / 16
    grid = (torch.arange(1600, dtype=torch.float64) + 0.5) / 1600
    tokens = draw((law * total).expand(1600, 5), grid)
    assert tokens.bincount(minlength=5).tolist() == [300, 0, 100, 700, 500]


def test_an_interval_is_closed_below_and_open_above():
    weights = torch.tensor([[0.5, 0.25, 0.25]]).expand(3, 3)
    u = numbers(float(np.nextafter(0.5, 0.0)), 0.5, 0.75)
    assert draw(weights, u).tolist() == [0, 1, 2]


def test_last_ulp_of_a_large_vocabulary_stays_inside():
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(8, 50_000, generator=generator)
    weights[:, -100:] = 0.0
    tokens = draw(weights, torch.full((8,), BELOW_ONE, dtype=torch.float64))
    assert (tokens < 50_000 - 100).all()


def test_equal_rows_and_numbers_give_equal_tokens_in_any_batch():
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(16, 300, generator=generator)
    u = torch.rand(16, dtype=torch.float64, generator=generator)
    together = draw(weights, u)
    alone = torch.cat([draw(weights[i : i + 1], u[i : i + 1]) for i in range(16)])
    assert torch.equal(together, alone)
