"""Appends to traces.jsonl: when a call returns, its record survives a crash."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import BinaryIO

from specbench.core.arm import ArmMemory
from specbench.core.manifest import SCHEMA_VERSION
from specbench.core.trace import Tick, Trace, Window
from specbench.errors import SpecbenchError, UsageError
from specbench.results.codec import encode_ticks, encode_trace, encode_windows, line
from specbench.results.lock import require_lock
from specbench.results.store import RunFolder


class TraceWriter:
    """The one writer of a run; a second one is refused.

    ``tick_offset`` keeps tick numbers of a resumed run apart from those of earlier sessions.
    """

    def __init__(self, folder: RunFolder, tick_offset: int = 0) -> None:
        self._file: BinaryIO = folder.traces.open("ab")
        try:
            require_lock(self._file, folder.path)
        except UsageError:
            self._file.close()
            raise
        self._tick_offset = tick_offset

    def trace(self, trace: Trace) -> None:
        """Append one trace."""
        self._append(encode_trace(trace, self._tick_offset))

    def ticks(self, arm: str, unit: str, ticks: Sequence[Tick]) -> None:
        """Append the ticks of one arm in one unit; engines without ticks leave no record."""
        if ticks:
            self._append(encode_ticks(arm, unit, ticks, self._tick_offset))

    def windows(self, arm: str, unit: str, windows: Sequence[Window]) -> None:
        """Append what counters showed of one arm in one unit; no record where there are none."""
        if windows:
            self._append(encode_windows(arm, unit, windows))

    def start(self, arm: str, start: int, facts: Mapping[str, object]) -> None:
        """Append what is known of one start of an arm's server."""
        self._append({"record": "start", "arm": arm, "start": start, "facts": dict(facts)})

    def memory(self, arm: str, held: ArmMemory) -> None:
        """Append what an arm held at the end of a session, its peak among it."""
        self._append({"record": "memory", "arm": arm, "held": asdict(held)})

    def resumed(self) -> None:
        """Note that the run goes on after an interruption."""
        self._append({"record": "resume", "time": datetime.now(UTC).isoformat()})

    def stopped(self, reason: str) -> None:
        """Note that the run was ended between two units, before all of its plan was run."""
        time = datetime.now(UTC).isoformat()
        self._append({"record": "stopped", "time": time, "reason": reason})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, record: dict[str, object]) -> None:
        try:
            self._file.write(line(record))
            _flush(self._file)
        except OSError as error:
            raise SpecbenchError(
                f"cannot write {self._file.name}: {error.strerror}",
                "what was finished is on disk; make room and continue with --resume",
            ) from error


def begin_traces(folder: RunFolder, run: str) -> None:
    """Write the first line of a new traces.jsonl: what the file is, and in which version."""
    with folder.traces.open("xb") as file:
        file.write(line({"record": "run", "schema_version": SCHEMA_VERSION, "run": run}))
        _flush(file)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
