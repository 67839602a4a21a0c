"""Clocks and memory of the device a model runs on."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import torch

from specbench.decoding.device_spans import Marks, OverlappedRecorder
from specbench.decoding.timing import TickRecorder


def clock_for(device: torch.device) -> Callable[[], int]:
    """Monotonic nanoseconds; on an asynchronous device the clock waits for it first."""
    if device.type == "cpu":
        return time.perf_counter_ns

    def synchronised() -> int:
        torch.cuda.synchronize(device)
        return time.perf_counter_ns()

    return synchronised


def recorder_for(device: torch.device, overlapped: bool, spans: bool) -> TickRecorder:
    """Ticks and spans of a model on a device.

    Args:
        overlapped: whether the host goes on while the device works; on a CPU nothing does.
        spans: whether there are spans.
    """
    if overlapped and device.type == "cuda":
        marks = Marks(
            lambda: torch.cuda.Event(enable_timing=True), lambda: torch.cuda.synchronize(device)
        )
        return OverlappedRecorder(time.perf_counter_ns, marks, spans)
    return TickRecorder(clock_for(device), spans)


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
