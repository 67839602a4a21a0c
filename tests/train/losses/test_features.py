"""The loss on hidden states, by hand."""

from __future__ import annotations

import numpy as np
import torch

from specbench.train.losses.features import smooth_l1


def test_by_hand():
    predicted = torch.tensor([[0.0, 3.0], [1.0, 1.0]])
    true = torch.tensor([[0.5, 0.0], [1.0, -1.0]])
    # Half the square below 1, the distance less a half above: (0.125 + 2.5) / 2, (0 + 1.5) / 2.
    np.testing.assert_allclose(smooth_l1(predicted, true), [1.3125, 0.75])


def test_gradients():
    chance = torch.Generator().manual_seed(1)
    predicted, true = torch.randn(2, 3, 4, dtype=torch.float64, generator=chance)
    assert torch.autograd.gradcheck(lambda x: smooth_l1(x, true), (predicted.requires_grad_(),))
