"""Tensors as they lie in a file: names, types and shapes by safetensors headers, without torch."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, TypeGuard

from specbench.errors import PrerequisiteError

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
_BITS |= {"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32}
_BITS |= {"I64": 64, "U64": 64, "F64": 64}
_LONGEST_HEADER = 100_000_000
"""Bytes; the safetensors format's own bound."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor as it lies in a file.

    Attributes:
        dtype: in safetensors' words, e.g. ``BF16``.
        shape: as stored.
        file: where.
    """

    dtype: str
    shape: tuple[int, ...]
    file: Path

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * _BITS.get(self.dtype, 8) // 8


def safetensors_header(file: Path) -> dict[str, Stored]:
    """Tensor name -> type and shape: 8 bytes of length (little endian), then JSON, then values.

    Raises:
        PrerequisiteError: not a safetensors file, or one that lacks what its header describes.
    """
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        whole = 0 <= length <= min(size - 8, _LONGEST_HEADER)
        try:
            entries = json.loads(stream.read(length)) if whole else None
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            entries = None
    if not isinstance(entries, dict):
        raise PrerequisiteError(f"{file} is not a safetensors file", "fetch it again")
    room = size - 8 - length
    return {
        name: _stored(name, entry, file, room)
        for name, entry in entries.items()
        if name != "__metadata__"
    }


def _stored(name: str, entry: Any, file: Path, room: int) -> Stored:
    """A tensor of a header, in a file with ``room`` bytes of values."""
    given: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
    dtype, shape, place = given.get("dtype"), given.get("shape"), given.get("data_offsets")
    if not isinstance(dtype, str) or not (_are_counts(shape) and _are_counts(place, 2)):
        raise PrerequisiteError(
            f"{file} cannot be read: its header describes tensor {name} as {entry!r}",
            "fetch it again",
        )
    found = Stored(dtype, tuple(shape), file)
    start, end = place
    if end > room or (dtype in _BITS and end - start != found.size):
        raise PrerequisiteError(
            f"{file} cannot be read: tensor {name} of {found.size} bytes lies at {start} to {end} "
            f"of {room} bytes",
            "fetch it again",
        )
    return found


def _are_counts(value: Any, length: int | None = None) -> TypeGuard[list[int]]:
    """Whether a value is a list of whole numbers from 0 on, of this length where one is given."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        return False
    return all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)
