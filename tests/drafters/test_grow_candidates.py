"""Candidates of large vocabularies: the same tokens as by definition, found in less time."""

import numpy as np
import pytest
import torch

from specbench.decoding.sampling import draw_without_replacement
from specbench.decoding.tree import PAD
from specbench.drafters.grow.candidates import best_tokens

BELOW_ONE = float(np.nextafter(1.0, 0.0))
ROWS, VOCABULARY = 4, 33_001
"""Neither the vocabulary nor what is drawn from it is a round number of anything."""


def drawn_by_definition(weights, uniforms):
    """Inverse CDF in id order over what is left, one row and one number at a time."""
    found = []
    for line, numbers in zip(weights.double().numpy().copy(), uniforms.tolist(), strict=True):
        tokens = []
        for u in numbers:
            ends = line.cumsum()
            if ends[-1] <= 0:
                tokens.append(-1)
                continue
            point = min(u * ends[-1], np.nextafter(ends[-1], 0.0))
            tokens.append(int(np.searchsorted(ends, point, side="right")))
            line[tokens[-1]] = 0.0
        found.append(tokens)
    return found


def laws():
    """Name -> weights [ROWS, VOCABULARY]."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(ROWS, VOCABULARY, generator=generator)
    few = torch.zeros(ROWS, VOCABULARY)
    few[:, [5, 255, 256, 33_000]] = torch.tensor([0.5, 0.25, 0.125, 0.125])
    few[1, 5:257] = 0.0
    few[2] = 0.0
    sparse = torch.softmax(4 * noise, 1)
    sparse[sparse < 1e-4] = 0.0
    # Equal weights of a power of two: with the numbers below every draw hits an end exactly.
    equal = torch.zeros(ROWS, VOCABULARY)
    equal[:, 100:16_484] = 2.0**-14
    return {
        "flat": torch.softmax(noise, 1),
        "peaked": torch.softmax(9 * noise, 1),
        "nearly certain": torch.softmax(60 * noise, 1),
        "sparse": sparse,
        "fewer than draws": few,
        "equal": equal,
        "not normalised": 1000 * torch.softmax(3 * noise, 1),
    }


@pytest.mark.parametrize("name", laws())
def test_draws_of_a_large_vocabulary_are_those_by_definition(name):
    weights = laws()[name]
    generator = torch.Generator().manual_seed(4)
    uniforms = torch.rand(ROWS, 8, dtype=torch.float64, generator=generator)
    # Ends of the range, and numbers that are ends of equal weights.
    uniforms[0, :4] = torch.tensor([0.0, BELOW_ONE, 0.5, 0.25], dtype=torch.float64)
    uniforms[3] = torch.arange(8, dtype=torch.float64) / 8
    kept = weights.clone()
    assert draw_without_replacement(weights, uniforms).tolist() == drawn_by_definition(
        weights, uniforms
    )
    assert torch.equal(weights, kept)


@pytest.mark.parametrize("name", ["peaked", "equal"])
def test_numbers_at_the_ends_of_intervals_draw_what_the_definition_draws(name):
    """The float64 ends themselves and their neighbours, as far as numbers can name them.

    Sums of peaked weights round, so that another order of them has other ends.
    """
    weights = laws()[name][:1].expand(300, VOCABULARY).contiguous()
    ends = weights[0].double().numpy().cumsum()
    heaviest = weights[0].argsort(descending=True, stable=True)[:100].numpy()
    picked = ends[heaviest] / ends[-1]
    numbers = np.concatenate([np.nextafter(picked, 0.0), picked, np.nextafter(picked, 1.0)])
    uniforms = torch.from_numpy(numbers)[:, None].expand(300, 2).contiguous()
    assert draw_without_replacement(weights, uniforms).tolist() == drawn_by_definition(
        weights, uniforms
    )


@pytest.mark.parametrize("count", [1, 10, 64])
@pytest.mark.parametrize("grain", [None, 4.0])
def test_best_tokens_of_a_large_vocabulary_are_those_of_a_stable_sort(count, grain):
    """``grain`` makes equals: of them the lowest ids come first."""
    generator = torch.Generator().manual_seed(5)
    logits = 3 * torch.randn(ROWS, VOCABULARY, generator=generator)
    # The best tokens of all lie behind the last whole block, or side by side in one.
    logits[1, -5:] += 40.0
    logits[2, 256:330] += 40.0
    if grain is not None:
        logits = (logits * grain).round() / grain
    expected = [
        sorted(range(VOCABULARY), key=lambda token: -line[token])[:count]
        for line in logits.tolist()
    ]
    assert best_tokens(logits, count).tolist() == expected


def test_best_tokens_of_a_large_vocabulary_leave_out_impossible_ones():
    logits = torch.full((1, VOCABULARY), -torch.inf)
    logits[0, [7, 900, 33_000]] = torch.tensor([1.0, 3.0, 2.0])
    assert best_tokens(logits, 5).tolist() == [[900, 33_000, 7, PAD, PAD]]
