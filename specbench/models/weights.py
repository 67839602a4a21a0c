"""What the weights are: one hash that identifies them, and how many bytes they take."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specbench.core.cache import cache_folder
from specbench.models.folder import weight_files


def weight_hash(path: Path, *, cached: bool = True) -> str:
    """SHA-256 (hexadecimal) over a model's weight files: names and contents, sorted by name.

    Hashing reads everything, so digests are remembered per file with its size, modification
    time and inode; ``cached=False`` neither reads nor writes them.

    Raises:
        PrerequisiteError: there is no weight file.
    """
    files = [path] if path.is_file() else weight_files(path, allow_pickle=True)
    total = hashlib.sha256()
    for file in files:
        digest = _remembered_digest(file.resolve()) if cached else file_sha256(file)
        total.update(f"{file.name} {digest}\n".encode())
    return total.hexdigest()


def file_sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weight_bytes(model: Any) -> int:
    """Bytes of memory behind a torch model's parameters and buffers; shared storage counts once."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for held in model.state_dict().values():
        for tensor in _stored(held):
            start = tensor.data_ptr()
            end = start + tensor.numel() * tensor.element_size()
            spans.setdefault(str(tensor.device), []).append((start, end))
    return sum(_union(sorted(on_device)) for on_device in spans.values())


def _stored(tensor: Any) -> Iterator[Any]:
    """The tensors that hold memory: those inside where a package wraps several as one."""
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten()[0]:
        yield from _stored(getattr(tensor, name))


def _union(spans: list[tuple[int, int]]) -> int:
    """Length of the union of sorted intervals: tied tensors overlap, neighbours do not."""
    total, reached = 0, 0
    for start, end in spans:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _remembered_digest(file: Path) -> str:
    status = file.stat()
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    key = hashlib.sha256(os.fsencode(file)).hexdigest()[:32]
    note = cache_folder() / "weight_hashes" / f"{key}.json"
    if note.is_file():
        known = json.loads(note.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    digest = file_sha256(file)
    note.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{key}.", dir=note.parent)
    with os.fdopen(handle, "w") as stream:
        json.dump({"file": file.name, "stamp": stamp, "sha256": digest}, stream)
    os.replace(temporary, note)
    return digest
