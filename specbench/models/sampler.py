"""Which kernels apply an experiment's sampling settings."""

from __future__ import annotations

import torch

from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_flashinfer import FlashInferKernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.models import kernel_library
from specbench.models.checkpoint import require_device


def sampler_named(name: str, device: str) -> Kernels:
    """The kernels of an experiment.

    Args:
        name: ``torch`` or ``flashinfer``, as ``target.sampler`` has it.
        device: of the target, as torch names it.

    Raises:
        UsageError: no such device.
        PrerequisiteError: they cannot run here.
    """
    if name != FlashInferKernels.name:
        return TORCH
    require_device(torch, device)
    return FlashInferKernels(
        kernel_library.require_library(
            kernel_library.FLASHINFER, device, "sampler = flashinfer", "leave target.sampler out"
        )
    )
