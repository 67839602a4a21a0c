"""What this machine gives, measured in seconds: a device for the roofline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

import psutil
import torch

from specbench.models.device import clock_for, device_name
from specbench.roofline.devices import TILE, Device

CPU_BYTES, GPU_BYTES = 2**29, 2**32
"""Size of the tensors that are read and copied: more than any cache holds."""

COLUMNS = 4096
"""Of the matrix that is read."""

CPU_SIDE, GPU_SIDE = 1536, 8192
"""Rows and columns of the matrices that are multiplied."""

FEWEST, MOST = 3, 25
"""Repetitions that the median is of; the time allowed decides between them."""


def measure(device: torch.device, dtypes: Sequence[str], seconds: float) -> Device:
    """Measure a device: copying, reading, and a matrix product for each dtype, in equal shares.

    A copy counts what is read and what is written. A CPU may fetch what it overwrites first, which
    is not counted, so that reading alone (the product of a matrix and a vector) is timed too; the
    faster of the two is the bandwidth.

    Args:
        device: a torch device.
        dtypes: names of torch types that can be multiplied on it.
        seconds: allowed for all of it, warm-up included; three repetitions of each are made anyhow.
    """
    share = seconds / (2 + len(dtypes))
    on_gpu = device.type == "cuda"
    size = GPU_BYTES if on_gpu else CPU_BYTES
    clock = clock_for(device)
    copy = _copy_rate(device, size, clock, share)
    read = _read_rate(device, size, clock, share)
    side = GPU_SIDE if on_gpu else CPU_SIDE
    peaks = {dtype: _product_rate(device, dtype, side, clock, share) for dtype in dtypes}
    title = device_name(device) or f"this CPU, {_threads()}"
    memory = torch.cuda.mem_get_info(device)[1] if on_gpu else psutil.virtual_memory().total
    said = f"measured now: copy {copy / 1e9:.3g} GB/s (read and write), read {read / 1e9:.3g} GB/s"
    return Device("measured", title, max(copy, read), peaks, memory, said, TILE if on_gpu else 1)


def _copy_rate(device: torch.device, size: int, clock: Callable[[], int], seconds: float) -> float:
    """Bytes/s, read and written."""
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    copied = torch.empty_like(source)
    return 2 * size / _median_seconds(lambda: copied.copy_(source), clock, seconds)


def _read_rate(device: torch.device, size: int, clock: Callable[[], int], seconds: float) -> float:
    """Bytes/s of the product of a matrix and a vector."""
    matrix = torch.ones(size // 4 // COLUMNS, COLUMNS, dtype=torch.float32, device=device)
    vector = torch.ones(COLUMNS, dtype=torch.float32, device=device)
    return size / _median_seconds(lambda: matrix @ vector, clock, seconds)


def read_here(size: int, seconds: float) -> tuple[float, str]:
    """Bytes/s at which this CPU reads a matrix of so many bytes (at most 512 MiB), and how that was
    found, in words.
    """
    size = min(size, CPU_BYTES)
    rate = _read_rate(torch.device("cpu"), size, clock_for(torch.device("cpu")), seconds)
    return rate, f"a matrix of {size / 1e6:.0f} MB, timed before the run with {_threads()}"


def _threads() -> str:
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _product_rate(
    device: torch.device, dtype: str, side: int, clock: Callable[[], int], seconds: float
) -> float:
    """FLOP/s of a product of two square matrices."""
    left = torch.ones(side, side, dtype=getattr(torch, dtype), device=device)
    right = torch.ones_like(left)
    return 2 * side**3 / _median_seconds(lambda: left @ right, clock, seconds)


def _median_seconds(work: Callable[[], object], clock: Callable[[], int], seconds: float) -> float:
    """Median time of a piece of work; its first run warms up."""
    begun = time.monotonic()
    work()
    times: list[int] = []
    while len(times) < FEWEST or (len(times) < MOST and time.monotonic() - begun < seconds):
        start = clock()
        work()
        times.append(clock() - start)
    return median(times) / 1e9
