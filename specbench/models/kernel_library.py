"""Libraries of kernels for GPUs, for whatever asks for them, where they can run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.checkpoint import require_torch

FLASHINFER = "flashinfer"
OLDEST = (7, 5)
"""Compute capability from which on there are kernels: Turing's, as its documentation says."""


def require_library(module: str, device: str, asked: str, instead: str) -> Any:
    """The module of a library.

    Args:
        module: its import name.
        device: where its kernels would run, as torch names it.
        asked: what asks for it, as it is written in an experiment.
        instead: what to do without it.

    Raises:
        PrerequisiteError: no CUDA device, one that is too old, or a package that is not here or
            cannot be imported.
    """
    if device.partition(":")[0] != "cuda":
        raise PrerequisiteError(
            f"{asked} runs on CUDA devices, and this is {device}",
            f"{instead}, or set target.device = cuda",
        )
    _require_capability(module, device, asked, instead)
    try:
        return import_module(module)
    except ImportError as error:
        raise PrerequisiteError(
            f"{asked}: {module} cannot be imported: {error}", "pip install 'specbench-llm[gpu]'"
        ) from error
    except (OSError, RuntimeError) as error:
        # Its shared libraries and its look for a compiler fail in ways of their own.
        raise PrerequisiteError(
            f"{asked}: {module} is installed and cannot be imported: {error}",
            f"install the build of it for torch's CUDA, or {instead}",
        ) from error


def _require_capability(module: str, device: str, asked: str, instead: str) -> None:
    """PrerequisiteError for a device that is too old; one that cannot be used is not judged."""
    torch = require_torch()
    if not torch.cuda.is_available():
        return
    if (capability := torch.cuda.get_device_capability(device)) < OLDEST:
        raise PrerequisiteError(
            f"{asked}: {module} has no kernels for {torch.cuda.get_device_name(device)}, of "
            f"compute capability {_dotted(capability)}: it begins at {_dotted(OLDEST)}",
            instead,
        )


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))
