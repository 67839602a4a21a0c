"""Replaces the linear layers of a loaded network by quantised ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from specbench.errors import PrerequisiteError
from specbench.models.linear import pack_linears
from specbench.models.quant import backends
from specbench.models.quant.int4 import (
    KERNEL_CHANNELS,
    KERNEL_GROUPS,
    Int4KernelLinear,
    Int4Linear,
)
from specbench.models.quant.int8 import Int8Linear
from specbench.models.quant.settings import Quant
from specbench.models.weights import weight_bytes

PROJECTIONS = frozenset({"lm_head", "embed_out", "head", "projection"})
"""Last part of the name of output projections, of models and of heads."""


def quantise_linears(
    network: nn.Module, quant: Quant, name: str, spare: nn.Module | None = None
) -> int:
    """Quantise every linear layer in place, except output projections unless ``quant.head``.

    Args:
        network: in eval mode; not yet packed (``models.linear``).
        name: of the model, for messages.
        spare: a network whose layers are left alone where the two share them.

    Returns:
        The number of layers that were replaced.

    Raises:
        PrerequisiteError: a package that is asked for is missing, a layer that does not divide into
            groups, or weights that are no linear layers, such as fused experts.
    """
    if not quant.on:
        return 0
    kept = {id(module) for module in spare.modules()} if spare is not None else set()
    _refuse_fused(network, quant, name)
    found = list(_linears(network, quant, kept))
    if not found:
        raise PrerequisiteError(
            f"{name} has no linear layer that could be quantised to {quant.scheme}",
            "leave quant out",
        )
    for parent, attribute, path in found:
        linear = getattr(parent, attribute)
        setattr(parent, attribute, _quantised(linear, quant, f"{name}: {path}"))
    return len(found)


def quantise_head(head: Any, quant: Quant, name: str, target: nn.Module, *, prepack: bool) -> None:
    """Quantise what of a head is its own and pack the rest; its ``weight_bytes`` follows.

    Args:
        head: a network with ``weight_bytes``, as ``models.heads.packed.FeatureHead``, not packed.
        target: lends layers, which stay as they are.
        prepack: whether linear layers that are left are packed for a CPU.
    """
    if not quant.on:
        return
    before = weight_bytes(head)
    quantise_linears(head, quant, name, target)
    head.weight_bytes -= before - weight_bytes(head)
    if prepack:
        pack_linears(head)


def _linears(
    network: nn.Module, quant: Quant, kept: set[int]
) -> Iterator[tuple[nn.Module, str, str]]:
    for path, parent in network.named_modules():
        for attribute, child in parent.named_children():
            if type(child) is not nn.Linear or id(child) in kept:
                continue
            if attribute not in PROJECTIONS or quant.head:
                yield parent, attribute, f"{path}.{attribute}".lstrip(".")


def _quantised(linear: nn.Linear, quant: Quant, place: str) -> nn.Module:
    if quant.backend != "torch":
        return backends.QUANTISERS[quant.backend](linear, quant)
    if quant.scheme == "int8":
        return Int8Linear(linear)
    if linear.in_features % quant.group:
        raise PrerequisiteError(
            f"{place} has {linear.in_features} columns, no multiple of the group of {quant.group}",
            "write quant = 'int4-g16', or 'int8'",
        )
    weight = linear.weight
    kernel = weight.dtype == torch.bfloat16 and weight.device.type == "cpu"
    if kernel and quant.group in KERNEL_GROUPS and linear.out_features % KERNEL_CHANNELS == 0:
        return Int4KernelLinear(linear, quant.group)
    return Int4Linear(linear, quant.group)


def _refuse_fused(network: nn.Module, quant: Quant, name: str) -> None:
    """Experts as one tensor of three dimensions would stay as they are, unseen."""
    for path, parameter in network.named_parameters():
        if parameter.ndim > 2:
            raise PrerequisiteError(
                f"{name}: {path} is one tensor {tuple(parameter.shape)} for several layers, which "
                f"quant={quant.scheme!r} cannot replace",
                "leave quant out, or run it on a serving engine with a quantised checkpoint",
            )
