"""Rounding errors keep to their formulas, and layers compute with the weights that they store."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from specbench.models.quant.int4 import Int4KernelLinear, Int4Linear, int4_groups
from specbench.models.quant.int8 import KERNEL_ROWS, Int8Linear, int8_rows
from tests.models.quant.by_hand import int4_weight, int8_weight

SHAPE = (32, 64)


def weights(dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = torch.randn(SHAPE, generator=generator) * torch.logspace(-3, 1, SHAPE[0])[:, None]
    found[3] = 0.0
    found[4] = 0.25
    return found.to(dtype)


def linear(dtype=torch.float32, bias=True):
    layer = nn.Linear(SHAPE[1], SHAPE[0], bias=bias, dtype=dtype)
    layer.weight.data = weights(dtype)
    return layer.requires_grad_(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_int8_is_off_by_half_a_scale_at_most(dtype):
    exact = weights(dtype)
    values, scale = int8_rows(exact)
    error = (exact.double() - values.double() * scale.double()[:, None]).abs()
    assert values.dtype == torch.int8
    assert bool((error <= scale.double()[:, None] / 2 * (1 + 1e-6)).all())
    if dtype == torch.float32:
        wanted, scales = int8_weight(exact.double().numpy())
        np.testing.assert_allclose(scale.numpy(), scales, rtol=1e-6)
        np.testing.assert_allclose(values.numpy() * scales[:, None], wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("group", [16, 32, 64])
def test_int4_is_off_by_half_a_scale_at_most(dtype, group):
    exact = weights(dtype)
    values, scale, low = int4_groups(exact, group)
    assert 0 <= int(values.min()) <= int(values.max()) <= 15
    grouped = exact.double().unflatten(1, (-1, group))
    found = values.double().unflatten(1, (-1, group)) * scale.double()[..., None]
    error = (grouped - found - low.double()[..., None]).abs()
    # In bfloat16 the scale itself is rounded, by 2**-9 of it, which the 15th step feels 15 times.
    rounding = 15 * 2.0**-9 if dtype == torch.bfloat16 else 1e-5
    assert bool((error <= scale.double()[..., None] * (0.5 + rounding)).all())
    if dtype == torch.float32:
        wanted, _ = int4_weight(exact.double().numpy(), group)
        found = (found + low.double()[..., None]).flatten(1).numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, KERNEL_ROWS, KERNEL_ROWS + 1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scheme", ["int8", "int4"])
def test_float32_layers_multiply_by_the_weights_of_the_formula(scheme, bias, rows):
    plain = linear(bias=bias)
    exact = plain.weight.double().numpy()
    wanted = int8_weight(exact)[0] if scheme == "int8" else int4_weight(exact, 32)[0]
    layer = Int8Linear(plain) if scheme == "int8" else Int4Linear(plain, 32)
    x = torch.randn(1, rows, SHAPE[1], generator=torch.Generator().manual_seed(1))
    expected = x.double() @ torch.tensor(wanted).T
    expected = expected + plain.bias.double() if bias else expected
    torch.testing.assert_close(layer(x).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, KERNEL_ROWS, KERNEL_ROWS + 1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["int8", "int4", "kernel"])
def test_half_precision_layers_multiply_by_what_they_store(kind, dtype, rows):
    if kind == "kernel" and dtype == torch.float16:
        pytest.skip("the kernel is chosen for bfloat16 alone")
    plain = linear(dtype)
    if kind == "int8":
        values, scale = int8_rows(plain.weight)
        layer, stored = Int8Linear(plain), values.double() * scale.double()[:, None]
    else:
        values, scale, low = int4_groups(plain.weight, 32)
        wide = values.double().unflatten(1, (-1, 32)) * scale.double()[..., None]
        stored = (wide + low.double()[..., None]).flatten(1)
        layer = Int4Linear(plain, 32) if kind == "int4" else Int4KernelLinear(plain, 32)
    x = torch.randn(rows, SHAPE[1], generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = x.double() @ stored.T + plain.bias.double()
    # Each product may be off by the rounding of its weight, and the sum by that of the result.
    unit = 2.0**-8 if dtype == torch.bfloat16 else 2.0**-11
    bound = unit * (2 * x.double().abs() @ (stored.abs() + 16 * _step(stored)).T + expected.abs())
    assert bool(((layer(x).double() - expected).abs() <= bound + unit).all())


def _step(stored: torch.Tensor) -> torch.Tensor:
    """What the offset of a group adds to the rounding of its small weights."""
    return stored.abs().amax(1, keepdim=True) / 15


def test_float16_does_not_overflow_before_it_is_scaled():
    plain = nn.Linear(4096, 2, bias=False, dtype=torch.float16)
    plain.weight.data.fill_(0.01)
    x = torch.full((1, 4096), 1.0, dtype=torch.float16)
    found = Int8Linear(plain.requires_grad_(False))(x)
    torch.testing.assert_close(found, torch.full_like(found, 40.96), rtol=2e-3, atol=0)


def test_layers_are_stored_in_few_bits():
    def size(layer):
        return sum(t.numel() * t.element_size() for t in layer.state_dict().values())

    plain = linear(bias=False)
    rows, columns = SHAPE
    assert size(Int8Linear(plain)) == rows * columns + 4 * rows
    assert size(Int4Linear(plain, 32)) == rows * columns // 2 + 2 * 4 * rows * columns // 32
    half = linear(torch.bfloat16, bias=False)
    assert size(Int8Linear(half)) == rows * columns + 2 * rows
    assert size(Int4KernelLinear(half, 32)) == rows * columns // 2 + 2 * 2 * rows * columns // 32
