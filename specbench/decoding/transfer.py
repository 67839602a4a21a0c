"""Host values on their way to the device, and a step's outcome on its way back.

On a CUDA device a copy from ordinary host memory makes the host wait; one from page-locked memory
is queued like a kernel. Everything that a decode step sends goes through ``to_device``, and the one
thing that it reads comes through ``to_host``. On a CPU both hand on what they are given.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device; the host does not wait for the copy."""
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return page_locked(tensor).to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Callable[[], Tensor]:
    """Start reading a tensor; what is returned waits until it is there, and for nothing behind it.

    Work that is queued after this call runs while the host waits and while it goes on.
    """
    if tensor.device.type != "cuda":
        return lambda: tensor
    landing = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    landing.copy_(tensor, non_blocking=True)
    read = torch.cuda.Event()
    read.record()

    def wait() -> Tensor:
        read.synchronize()
        return landing

    return wait


def passed(device: torch.device) -> Callable[[], None]:
    """Mark a device's queue; what is returned waits until the device has come to the mark."""
    if device.type != "cuda":
        return _at_once
    mark = torch.cuda.Event()
    mark.record(torch.cuda.current_stream(device))
    return mark.synchronize


def _at_once() -> None:
    """Where there is no queue everything is done."""


def page_locked(tensor: Tensor) -> Tensor:
    """A copy that the device can fetch by itself; the allocator keeps it until it has."""
    return tensor.pin_memory()


def places(chosen: list[int], of: int, device: torch.device) -> Tensor | slice:
    """An index of the chosen ones out of ``of``, increasing; all of them need no copy."""
    return slice(None) if len(chosen) == of else to_device(torch.tensor(chosen), device)
