"""State dicts in pickle files (``.bin``, ``.pt``), read without running code from them."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.checkpoint import require_torch
from specbench.models.heads.stored import Stored

_DTYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32"}
_DTYPES |= {"int64": "I64", "float16": "F16", "bfloat16": "BF16", "float32": "F32"}
_DTYPES |= {"float64": "F64", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}
_DAMAGED = (
    *(RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, AssertionError, ImportError, MemoryError, struct.error),
)
"""What torch's reader makes of bytes that are no pickle of its own."""


def read_pickle(file: Path) -> dict[str, Any]:
    """Tensor name -> tensor on the CPU, mapped from the file where its format allows that.

    Raises:
        PrerequisiteError: it needs code to be read, is damaged, or is no table of tensors.
    """
    torch = require_torch()
    try:
        try:
            found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        except RuntimeError:
            # only the zip format of torch >= 1.6 can be mapped
            found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PrerequisiteError(
            f"{file} holds more than tensors, and reading that could run code: {_first(error)}",
            "convert it to safetensors where you trust it; specbench never runs such a file",
        ) from None
    except _DAMAGED as error:
        raise PrerequisiteError(
            f"{file} cannot be read: {_first(error)}", "fetch or copy it again"
        ) from None
    if not isinstance(found, dict) or not all(torch.is_tensor(t) for t in found.values()):
        raise PrerequisiteError(
            f"{file} is not a table of named tensors", "save the state dict alone"
        )
    return {str(name): tensor for name, tensor in found.items()}


def pickle_header(file: Path) -> dict[str, Stored]:
    """Names, types and shapes of a pickled state dict; see ``read_pickle``."""
    return {
        name: Stored(_dtype(tensor.dtype), tuple(tensor.shape), file)
        for name, tensor in read_pickle(file).items()
    }


def _dtype(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, name)


def _first(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    said = lines[0].strip() if lines else ""
    return said if len(said.split()) > 1 else f"{type(error).__name__} {said}".rstrip()
