"""Writing that fails says so, and leaves what was there before."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from specbench.errors import SpecbenchError


@contextmanager
def writing(path: Path, kept: str) -> Iterator[Path]:
    """A file beside ``path`` that takes its place when it is complete.

    Args:
        path: what is written; its folder is made.
        kept: what outlives a failure, for the message.

    Raises:
        SpecbenchError: the disk is full, or cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        open_to_readers(part)
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        part.unlink(missing_ok=True)
        raise unwritten(path, error, kept) from error


def open_to_readers(path: Path) -> None:
    """Give a file the permissions of any other; safetensors makes private ones."""
    # The only portable way to read the mask is to set it.
    mask = os.umask(0o022)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


def unwritten(path: Path, error: Exception, kept: str) -> SpecbenchError:
    """What to tell of a file that could not be written."""
    # safetensors and zip writers of torch hide the number of the system's error.
    reason = getattr(error, "strerror", None) or str(error)
    return SpecbenchError(
        f"{path} could not be written: {reason}",
        f"make room and type the same command again; {kept}",
    )
