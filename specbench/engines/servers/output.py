"""What a server prints: kept on disk up to a limit, its end always at hand."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO

LIMIT_BYTES = 4 << 20
TAIL_BYTES = 16 << 10


class BoundedLog:
    """The first ``limit`` bytes of an output in a file, and its last ``tail`` bytes in memory.

    The file gets the tail too when it is closed, behind a line that says how much is left out.

    Args:
        path: the file, made anew.
        limit: bytes written as they come.
        tail: bytes remembered.
    """

    def __init__(self, path: Path, limit: int = LIMIT_BYTES, tail: int = TAIL_BYTES) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._room = limit
        self._keep = tail
        self._beyond = 0
        self._last: deque[bytes] = deque()
        self._held = 0
        self._lock = threading.Lock()

    def write(self, chunk: bytes) -> None:
        """Take what was printed."""
        with self._lock:
            written = chunk[: self._room]
            if written:
                self._file.write(written)
                self._file.flush()
            self._room -= len(written)
            self._beyond += len(chunk) - len(written)
            self._last.append(chunk)
            self._held += len(chunk)
            while self._held - len(self._last[0]) >= self._keep:
                self._held -= len(self._last.popleft())

    def tail(self, lines: int = 20) -> list[str]:
        """The last lines that are not empty."""
        with self._lock:
            text = b"".join(self._last)[-self._keep :].decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()][-lines:]

    def close(self) -> None:
        """Write what was left out, as far as it is remembered, and close the file."""
        with self._lock:
            if self._file.closed:
                return
            if self._beyond:
                end = b"".join(self._last)[-min(self._keep, self._beyond) :]
                left_out = self._beyond - len(end)
                self._file.write(f"\n[{left_out} bytes left out]\n".encode() + end)
            self._file.close()

    def __enter__(self) -> BoundedLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
