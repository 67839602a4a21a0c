"""Quantised linear layers of other packages, which are imported when they are asked for.

torchao: weight-only int8 per output channel and int4 per group. bitsandbytes: LLM.int8 (Dettmers
et al. 2208.07339), which rounds activations to 8 bits as well, and NF4 (2305.14314) for int4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from torch import nn

from specbench.errors import PrerequisiteError
from specbench.models.quant.settings import Quant


class TorchaoLinear(nn.Linear):
    """A linear layer whose weight is torchao's: a class of its own, so that nothing packs it."""


def _torchao(linear: nn.Linear, quant: Quant) -> nn.Module:
    package = _package("torchao", "torchao.quantization")
    config = (
        package.Int8WeightOnlyConfig()
        if quant.scheme == "int8"
        else package.Int4WeightOnlyConfig(group_size=quant.group)
    )
    held = nn.ModuleList([linear])
    try:
        package.quantize_(held, config, filter_fn=lambda module, _: module is linear)
    except (ImportError, ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        raise PrerequisiteError(
            f"torchao cannot quantise to {quant.scheme} in {linear.weight.dtype} here: {error}",
            "leave quant_backend out: torch's own layers need no further package",
        ) from error
    linear.__class__ = TorchaoLinear
    return linear


def _bitsandbytes(linear: nn.Linear, quant: Quant) -> nn.Module:
    layers: Any = _package("bitsandbytes", "bitsandbytes.nn")
    shape, bias = (linear.in_features, linear.out_features), linear.bias is not None
    weight = linear.weight.detach()
    if quant.scheme == "int8":
        made = layers.Linear8bitLt(*shape, bias=bias, has_fp16_weights=False)
        made.weight = layers.Int8Params(weight.cpu(), requires_grad=False, has_fp16_weights=False)
    else:
        made = layers.Linear4bit(*shape, bias=bias, quant_type="nf4", compute_dtype=weight.dtype)
        made.weight = layers.Params4bit(weight.cpu(), requires_grad=False, quant_type="nf4")
    if bias:
        made.bias = linear.bias
    # These layers are quantised when they are moved to a device.
    return made.to(weight.device).eval().requires_grad_(False)


QUANTISERS: Mapping[str, Callable[[nn.Linear, Quant], nn.Module]] = {
    "torchao": _torchao,
    "bitsandbytes": _bitsandbytes,
}


def _package(name: str, module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise PrerequisiteError(
            f"quant_backend {name!r} needs the package {name}, which cannot be imported: {error}",
            f"type: pip install {name}; or leave quant_backend out: torch's own layers need none",
        ) from error
