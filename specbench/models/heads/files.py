"""The files of a checkpoint folder: configuration, tensor names and shapes, from headers alone.

Safetensors headers need no torch; the names in a pickle do, and are read without running its code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import read_json
from specbench.models.heads.stored import Stored, safetensors_header
from specbench.models.weights import weight_hash

INDEX, PICKLED_INDEX = "model.safetensors.index.json", "pytorch_model.bin.index.json"
NO_WEIGHTS = ("training_args.bin", "optimizer.bin", "scheduler.bin", "optimizer.pt", "scheduler.pt")
"""Files of a training run that lie beside the weights."""
BESIDE = ("medusa_lm_head.safetensors", "medusa_lm_head.pt")
"""Heads in the folder of a model, in no index; the first one counts."""


class LeadsOut(PrerequisiteError):
    """An index that names files outside of its folder."""


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


def open_checkpoint(path: Path, *, beside: bool = True) -> Checkpoint:
    """Look at a checkpoint folder without reading weights.

    An index decides which file holds which tensor; without one every safetensors file counts.
    Pickles and their index count where there are no safetensors but Medusa heads beside a model.

    Args:
        path: the folder.
        beside: whether Medusa heads in a file of their own beside a model count too.

    Raises:
        LeadsOut: an index that leads out of the folder.
        PrerequisiteError: no weights, a damaged file, or pickles without torch to read their names.
    """
    config = read_json(path / "config.json")
    index = _index(path)
    heads = [path / name for name in BESIDE if beside and (path / name).is_file()][:1]
    files = {} if index is None else _indexed(index)
    own = weight_files(path) if index is None else []
    headers = {file: header(file) for file in dict.fromkeys([*own, *heads])}
    for file, tensors in headers.items():
        for name in tensors:
            if name in files:
                raise PrerequisiteError(
                    f"{path} holds tensor {name} twice: in {files[name].name} and {file.name}",
                    "keep one of the two files in the folder",
                )
            files[name] = file
    return Checkpoint(path, config, files, headers)


def _index(path: Path) -> Path | None:
    """The index of the weights that count, where they have one."""
    plain = any(file.name not in BESIDE for file in path.glob("*.safetensors"))
    indexes = [INDEX] if plain else [INDEX, PICKLED_INDEX]
    return next((path / name for name in indexes if (path / name).is_file()), None)


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


def header(file: Path) -> dict[str, Stored]:
    """Names, types and shapes in a weight file. PrerequisiteError for damaged ones."""
    if file.suffix != ".safetensors":
        from specbench.models.heads.pickles import pickle_header

        return pickle_header(file)
    return safetensors_header(file)


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
    return {tensor: index.parent / str(file) for tensor, file in weight_map.items()}
