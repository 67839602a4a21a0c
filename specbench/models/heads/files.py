"""The files of a checkpoint folder: configuration, tensor names and shapes, from headers alone.

Safetensors headers need no torch; the names in a pickle do, and are read without running its code.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.weights import weight_hash

INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
NO_WEIGHTS = ("training_args.bin", "optimizer.bin", "scheduler.bin", "optimizer.pt", "scheduler.pt")
"""Files of a training run that lie beside the weights."""

_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8}
_BITS |= {"I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32}
_BITS |= {"I64": 64, "U64": 64, "F64": 64}
_LONGEST_HEADER = 100_000_000
"""Bytes; the safetensors format's own bound."""


class LeadsOut(PrerequisiteError):
    """An index that names files outside of its folder."""


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


@dataclass(slots=True)
class Checkpoint:
    """A folder with a configuration and named tensors; headers are read file by file, when asked.

    Attributes:
        path: the folder.
        config: its ``config.json``; empty where there is none.
        files: tensor name -> file.
    """

    path: Path
    config: Mapping[str, Any]
    files: Mapping[str, Path]
    _headers: dict[Path, dict[str, Stored]] = field(default_factory=dict)

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def stored(self, name: str) -> Stored:
        """Type and shape of a tensor.

        Raises:
            PrerequisiteError: the index names it, its file does not hold it.
        """
        file = self.files[name]
        if file not in self._headers:
            self._headers[file] = header(file)
        if name not in self._headers[file]:
            raise PrerequisiteError(
                f"{file} lacks tensor {name}, which the folder's index says it holds",
                "fetch or copy the checkpoint again",
            )
        return self._headers[file][name]

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor; see ``stored``."""
        return self.stored(name).shape


def open_checkpoint(path: Path) -> Checkpoint:
    """Look at a checkpoint folder without reading weights.

    An index decides which file holds which tensor; without one every safetensors file counts, or
    every pickle where there are no safetensors.

    Raises:
        LeadsOut: an index that leads out of the folder.
        PrerequisiteError: no weights, a damaged file, or pickles without torch to read their names.
    """
    config = read_json(path / "config.json")
    index = next((path / name for name in INDEXES if (path / name).is_file()), None)
    if index is not None:
        return Checkpoint(path, config, _indexed(index))
    headers = {file: header(file) for file in weight_files(path)}
    files: dict[str, Path] = {}
    for file, tensors in headers.items():
        for name in tensors:
            if name in files:
                raise PrerequisiteError(
                    f"{path} holds tensor {name} twice: in {files[name].name} and {file.name}",
                    "keep one of the two files in the folder",
                )
            files[name] = file
    return Checkpoint(path, config, files, headers)


def weight_files(path: Path) -> list[Path]:
    """Weight files of a folder without an index, sorted; safetensors before pickles.

    Raises:
        PrerequisiteError: there are none.
    """
    for pattern in ("model.safetensors", "*.safetensors", "pytorch_model*.bin", "*.bin", "*.pt"):
        found = sorted(f for f in path.glob(pattern) if f.name not in NO_WEIGHTS)
        if found:
            return found
    raise PrerequisiteError(
        f"{path} has no weights (looked for *.safetensors, *.bin, *.pt)",
        "fetch or copy the checkpoint again",
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file. PrerequisiteError for anything else."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PrerequisiteError(f"{path} is not JSON: {error}", "fetch the model again") from None
    return value if isinstance(value, dict) else {}


def header(file: Path) -> dict[str, Stored]:
    """Names, types and shapes in a weight file. PrerequisiteError for damaged ones."""
    if file.suffix != ".safetensors":
        from specbench.models.heads.pickles import pickle_header

        return pickle_header(file)
    entries = safetensors_header(file)
    return {n: Stored(e["dtype"], tuple(e["shape"]), file) for n, e in entries.items()}


def safetensors_header(file: Path) -> dict[str, Any]:
    """Tensor name -> entry: 8 bytes of length (little endian), then JSON.

    Raises:
        PrerequisiteError: not a safetensors file.
    """
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        whole = 0 <= length <= min(file.stat().st_size - 8, _LONGEST_HEADER)
        try:
            entries = json.loads(stream.read(length)) if whole else None
        except (json.JSONDecodeError, UnicodeDecodeError):
            entries = None
    if not isinstance(entries, dict):
        raise PrerequisiteError(f"{file} is not a safetensors file", "fetch it again")
    return {name: entry for name, entry in entries.items() if name != "__metadata__"}


def files_hash(files: Sequence[Path]) -> str:
    """SHA-256 (hexadecimal) that identifies a head by its files; of one file, its weight hash."""
    if len(files) == 1:
        return weight_hash(files[0])
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.name} {weight_hash(file)}\n".encode())
    return total.hexdigest()


def _indexed(index: Path) -> dict[str, Path]:
    """Tensor name -> file, by an index; every file lies in the folder of the index."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise PrerequisiteError(f"{index} has no weight_map", "fetch the checkpoint again")
    for name in sorted(set(map(str, weight_map.values()))):
        if Path(name).is_absolute() or ".." in Path(name).parts or not Path(name).name:
            raise LeadsOut(
                f"{index} leads out of its folder: {name!r}",
                "a checkpoint reads files of its own folder only; do not use this one",
            )
        if not (index.parent / name).is_file():
            raise PrerequisiteError(
                f"{index.parent} lacks weight file {name}", "fetch or copy the checkpoint again"
            )
    return {tensor: index.parent / file for tensor, file in weight_map.items()}
