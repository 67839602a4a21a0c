"""Clocks and memory of the device a model runs on."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import torch


def clock_for(device: torch.device) -> Callable[[], int]:
    """Monotonic nanoseconds; on an asynchronous device the clock waits for it first."""
    if device.type == "cpu":
        return time.perf_counter_ns

    def synchronised() -> int:
        torch.cuda.synchronize(device)
        return time.perf_counter_ns()

    return synchronised


def device_name(device: torch.device) -> str | None:
    """What the driver calls a GPU; None for a CPU, which the environment names."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else None


def peak_bytes(device: torch.device) -> int | None:
    """Peak memory so far: of the process on a CPU, of the allocator on CUDA."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    info = psutil.Process().memory_info()
    peak = getattr(info, "peak_wset", None)
    if peak is None:
        import resource

        # Linux counts kibibytes here, macOS bytes; both are Unix, so resource exists.
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak = peak if psutil.MACOS else peak * 1024
    return int(peak)
