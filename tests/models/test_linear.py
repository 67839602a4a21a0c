"""Packed linear layers compute what plain ones do; where packing is refused nothing changes."""

import pytest
import torch
from torch import nn

from specbench.models import linear
from specbench.models.linear import PackedLinear, can_pack, pack_linears
from tests.models.families import build

needs_packing = pytest.mark.skipif(not can_pack(), reason="this torch has no oneDNN packing")


@needs_packing
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 8, 33])
def test_packed_layers_equal_plain_ones(bias, rows):
    torch.manual_seed(0)
    plain = nn.Linear(64, 96, bias=bias)
    x = torch.randn(1, rows, 64)
    torch.testing.assert_close(PackedLinear(plain)(x), plain(x), atol=1e-5, rtol=1e-5)


@needs_packing
def test_a_whole_model_keeps_its_logits():
    model, plain = build("qwen2"), build("qwen2")
    # Seven projections in each of three layers, and the head.
    assert pack_linears(model) == 3 * 7 + 1
    ids = torch.tensor([[1, 2, 3, 4]])
    torch.testing.assert_close(model(ids).logits, plain(ids).logits, atol=1e-4, rtol=1e-4)


def test_a_type_that_cannot_be_packed_leaves_the_model_alone():
    model = build("llama", dtype=torch.float64)
    assert pack_linears(model) == 0
    assert not [m for m in model.modules() if isinstance(m, PackedLinear)]


def test_a_torch_without_packing_leaves_the_model_alone(monkeypatch):
    monkeypatch.setattr(linear, "can_pack", lambda: False)
    assert pack_linears(build("llama")) == 0
