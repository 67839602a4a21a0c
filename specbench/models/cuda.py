"""What torch and the driver say of CUDA devices, and why one cannot be used. Torch is an argument.

The texts of torch are those of its ``c10/cuda/CUDAFunctions.cpp`` and ``torch/cuda/__init__.py``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError

ELSEWHERE = "or use --device cpu"
KERNEL_MODULE = Path("/proc/driver/nvidia/version")
"""Where the driver of Linux says its version."""

_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d+)\)")
_VERSION = re.compile(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One CUDA device.

    Attributes:
        index: as in ``cuda:0``.
        name: as the driver reports it.
        capability: compute capability, major and minor.
        free, total: bytes of its memory.
    """

    index: int
    name: str
    capability: tuple[int, int]
    free: int
    total: int


def gpus(torch: Any) -> Iterator[Gpu]:
    """The devices that torch can use; none where there is a reason, see ``trouble``."""
    for index in range(0 if trouble(torch) else torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        name, capability = (
            torch.cuda.get_device_name(index),
            torch.cuda.get_device_capability(index),
        )
        yield Gpu(index, name, tuple(capability), free, total)


def trouble(torch: Any) -> PrerequisiteError | None:
    """Why torch can use no CUDA device at all; None where it can."""
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return unusable(torch, "cuda", "")
    with warnings.catch_warnings():
        # Where the driver is too old this warns, and what follows says the same.
        warnings.simplefilter("ignore")
        if torch.cuda.is_available():
            return None
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return unusable(torch, "cuda", str(error))
    return unusable(torch, "cuda", "No CUDA GPUs are available")


def unusable(torch: Any, name: str, said: str) -> PrerequisiteError:
    """The error for a device that torch refused.

    Args:
        torch: the module.
        name: of the device, as typed.
        said: torch's own text.
    """
    why, fix = _explained(torch, said)
    return PrerequisiteError(f"device {name} cannot be used here: {why}", f"{fix}, {ELSEWHERE}")


def _explained(torch: Any, said: str) -> tuple[str, str]:
    """Why, and what mends it."""
    built = getattr(torch.version, "cuda", None)
    if built is None and getattr(torch.version, "hip", None) is None:
        return (
            f"torch {torch.__version__} is built for CPUs alone",
            "install a torch that is built with CUDA (pytorch.org says how)",
        )
    if found := _TOO_OLD.search(said):
        return (
            f"the NVIDIA driver is too old: it runs CUDA up to {cuda_version(int(found[1]))}, and "
            f"torch {torch.__version__} is built with CUDA {built}",
            f"update the driver, or install a torch for CUDA {cuda_version(int(found[1]))}",
        )
    if "no NVIDIA driver" in said:
        return "no NVIDIA driver is installed", "install one, in a container pass the GPU on to it"
    if "No CUDA GPUs" in said:
        return "there is a driver and no GPU", "look at CUDA_VISIBLE_DEVICES, and at nvidia-smi"
    if "invalid device ordinal" in said:
        return f"there are {torch.cuda.device_count()} GPUs, counted from 0", "name one of them"
    if "no kernel image" in said:
        return (
            f"torch {torch.__version__} has no kernels for this GPU",
            f"install a torch for it; this one has {', '.join(torch.cuda.get_arch_list())}",
        )
    first = next(iter(said.strip().splitlines()), "torch says nothing more")
    return first, "see: specbench doctor"


def cuda_version(number: int) -> str:
    """A version as CUDA writes it in one number: 12080 is 12.8."""
    return f"{number // 1000}.{number % 1000 // 10}"


def driver_version(module: Path = KERNEL_MODULE) -> str | None:
    """The version of the NVIDIA driver, such as ``570.86.15``; None where there is none."""
    try:
        text = module.read_text(encoding="utf-8")
    except OSError:
        return printed("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    found = _VERSION.search(text)
    return found[1] if found else None


def compiler_version() -> str | None:
    """What ``nvcc`` says of itself, such as ``release 13.0``; None where it is not found."""
    text = printed("nvcc", "--version", line=-2)
    found = re.search(r"release \d+\.\d+", text or "")
    return found[0] if found else None


def printed(program: str, *arguments: str, line: int = 0) -> str | None:
    """A line of what a program prints; None where it is not there, fails or prints less."""
    if (path := shutil.which(program)) is None:
        return None
    try:
        done = subprocess.run(
            [path, *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    held = -len(lines) <= line < len(lines)
    return lines[line].strip() if done.returncode == 0 and held else None
