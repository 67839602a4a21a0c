"""Files of one JSON record per line that grow while a long job runs and outlive its end."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.results.lock import require_lock


def read_records(path: Path, keys: Collection[str] = ("id",)) -> Iterator[dict[str, Any]]:
    """Finished records of a file, in order; a last line that was torn by a kill is left out.

    Args:
        path: the file; no records where it is not.
        keys: what every record has.

    Raises:
        PrerequisiteError: another line that is no such record: the file was changed by hand.
        SpecbenchError: the file cannot be read.
    """
    if not path.is_file():
        return
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if line.endswith(b"\n"):
                    yield _record(line, keys, f"{path}, line {number}")
    except OSError as error:
        raise SpecbenchError(f"cannot read {path}: {error.strerror}", "check the file") from error


def _record(line: bytes, keys: Collection[str], place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise _damaged(place) from error
    if not isinstance(record, dict) or not record.keys() >= set(keys):
        raise _damaged(place)
    return record


def _damaged(place: str) -> PrerequisiteError:
    return PrerequisiteError(
        f"{place}: damaged: not a record of this file", "remove the line; what it held is made anew"
    )


class Records:
    """Appends records to a file; when ``add`` returns, the record outlives a kill.

    Args:
        path: made where it is not; a torn last line is cut off.

    Raises:
        UsageError: another process writes the file.
        SpecbenchError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: what a full disk did not take must not be tried again on closing.
            self._stream = path.open("ab", buffering=0)
            require_lock(self._stream, path)
            self._stream.truncate(path.read_bytes().rfind(b"\n") + 1)
        except UsageError:
            self._stream.close()
            raise
        except OSError as error:
            raise self._unwritable(error) from error

    def add(self, record: Mapping[str, object]) -> None:
        """Write one record.

        Raises:
            SpecbenchError: the disk is full, or the file cannot be written for another reason.
        """
        line = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        rest = memoryview(line.encode() + b"\n")
        try:
            while rest:
                rest = rest[self._stream.write(rest) :]
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> SpecbenchError:
        return SpecbenchError(
            f"cannot write {self._path}: {error.strerror}",
            "finished records are kept: make room, or mend the folder's permissions, and give the "
            "same command again",
        )

    def close(self) -> None:
        """No more records."""
        self._stream.close()

    def __enter__(self) -> Records:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
