"""Weights of chosen tensors from a checkpoint's files; only the files that hold them are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.pickles import read_pickle


def load_tensors(checkpoint: Checkpoint, names: Iterable[str]) -> dict[str, Tensor]:
    """Stored name -> tensor on the CPU, as stored; it may be mapped from its file.

    Raises:
        PrerequisiteError: a damaged file, or one that lacks what the index says it holds.
    """
    by_file: dict[Path, list[str]] = {}
    for name in names:
        by_file.setdefault(checkpoint.stored(name).file, []).append(name)
    found: dict[str, Tensor] = {}
    for file, wanted in by_file.items():
        if file.suffix != ".safetensors":
            pickled = read_pickle(file)
            found |= {name: pickled[name] for name in wanted}
            continue
        try:
            with safe_open(file, framework="pt") as opened:
                found |= {name: opened.get_tensor(name) for name in wanted}
        except (SafetensorError, OSError) as error:
            raise PrerequisiteError(f"{file} cannot be read: {error}", "fetch it again") from None
    return found
