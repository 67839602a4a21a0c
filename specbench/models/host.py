"""What this process may use of the machine: cores and memory, as its control group allows them."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = CGROUP) -> float:
    """Cores this process may use: its affinity mask, cut by the control group's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        return min(float(allowed or 1), int(quota) / int(period))
    return float(allowed or 1)


def usable_memory(cgroup: Path = CGROUP) -> int:
    """Bytes of memory this process may use: the machine's, cut by the control group's limit."""
    limit = _read(cgroup / "memory.max")
    total = int(psutil.virtual_memory().total)
    return min(total, int(limit)) if limit.isdigit() else total


def free_memory(cgroup: Path = CGROUP) -> int:
    """Bytes of ``usable_memory`` that nobody holds; what the system can give up counts as free."""
    return min(usable_memory(cgroup), int(psutil.virtual_memory().available))


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
