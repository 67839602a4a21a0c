"""Other packages quantise where they are installed; where not, the message says what to do."""

from __future__ import annotations

import sys

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.linear import PackedLinear, pack_linears
from specbench.models.quant.apply import quantise_linears
from specbench.models.quant.settings import Quant
from specbench.models.weights import weight_bytes
from tests.models.families import build, reference

IDS = [1, 9, 33, 4]


@pytest.mark.parametrize("name", ["torchao", "bitsandbytes"])
def test_a_missing_package_is_named_with_the_way_on(monkeypatch, name):
    for module in (name, "torchao.quantization", "bitsandbytes.nn"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(PrerequisiteError, match=f"needs the package {name}") as error:
        quantise_linears(build("llama"), Quant("int8", backend=name), "llama")
    assert f"pip install {name}" in error.value.hint
    assert "leave quant_backend out" in error.value.hint


@pytest.mark.parametrize("name", ["torchao", "bitsandbytes"])
def test_int8_of_an_installed_package_is_close_and_small_and_is_not_packed(name):
    pytest.importorskip(name)
    model, plain = build("llama"), build("llama")
    quantise_linears(model, Quant("int8", backend=name), "llama")
    assert pack_linears(model) <= 1
    assert not isinstance(model.model.layers[0].mlp.up_proj, PackedLinear)
    with torch.inference_mode():
        found, exact = reference(model)(IDS), reference(plain)(IDS)
    assert 0 < float((found - exact).abs().max()) < 0.1 * float(exact.abs().max())
    assert weight_bytes(model) < 0.5 * weight_bytes(plain)


def test_int4_of_bitsandbytes_is_close_and_small():
    pytest.importorskip("bitsandbytes")
    model, plain = (build("llama", hidden_size=128, intermediate_size=256) for _ in range(2))
    quantise_linears(model, Quant("int4", backend="bitsandbytes"), "llama")
    with torch.inference_mode():
        found, exact = reference(model)(IDS), reference(plain)(IDS)
    assert 0 < float((found - exact).abs().max()) < 0.8 * float(exact.abs().max())
    assert weight_bytes(model) < 0.5 * weight_bytes(plain)
