"""One process writes at a time; who comes second is refused and not kept waiting."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from specbench.errors import UsageError


def require_lock(stream: IO[Any], path: Path) -> None:
    """Lock an open file; ``path`` is what is written under the lock.

    Raises:
        UsageError: another process writes there.
        OSError: the file system has no locks.
    """
    if not lock(stream):
        raise UsageError(
            f"{path} is being written by another process",
            "wait for it to end, or stop it, before going on in this folder",
        )


@contextmanager
def written_alone(path: Path) -> Iterator[None]:
    """Keep other processes from writing a file that is replaced as a whole.

    The lock lies beside it: the file itself is another one after each writing. Its folder is made.

    Raises:
        UsageError: another process writes it.
        OSError: the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as stream:
        require_lock(stream, path)
        yield


if sys.platform == "win32":

    def lock(stream: IO[Any]) -> bool:
        """No advisory locks here."""
        return True

else:
    import fcntl

    def lock(stream: IO[Any]) -> bool:
        """Lock an open file until it is closed; False where another process has done so."""
        # The kernel drops the lock with the process, however that ends.
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
