"""How a program in the sandbox ended, read from the report of its walls."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from specbench.quality import sandbox_program

_MIB = 1 << 20


class Outcome(StrEnum):
    """How a program ended. ``REFUSED``: it was not run, because a wall could not be built."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one program may use: seconds, bytes and counts; CPU and memory are per process."""

    cpu_s: int = 5
    wall_s: float = 10.0
    memory_bytes: int = 512 * _MIB
    processes: int = 8
    file_bytes: int = _MIB
    disk_bytes: int = 16 * _MIB
    open_files: int = 32
    output_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended, why in one line, and the start of what it printed."""

    outcome: Outcome
    detail: str
    output: str = ""


_VERDICTS = {
    sandbox_program.PASSED: Outcome.PASSED,
    sandbox_program.FAILED: Outcome.FAILED,
    sandbox_program.MEMORY: Outcome.MEMORY,
    sandbox_program.ERROR: Outcome.ERROR,
}


def verdict(report: bytes, output: str, limits: Limits, *, late: bool) -> Ran:
    """What became of a program.

    Args:
        report: lines of JSON from behind the walls, see ``sandbox_walls``.
        output: the start of what the program printed.
        limits: what it ran under.
        late: whether it was killed at the wall-clock limit.
    """
    said: dict[str, Any] = {}
    for line in reversed(report.splitlines()):
        said |= json.loads(line)
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "")
    if late:
        return Ran(Outcome.TIMEOUT, f"more than {limits.wall_s:g} s", output)
    if "refused" in said or "status" not in said:
        return Ran(Outcome.REFUSED, str(said.get("refused", last or "no report")), output)
    status, used = int(said["status"]), float(said["cpu_s"])
    if status in _VERDICTS:
        return Ran(_VERDICTS[status], last, output)
    if status == -signal.SIGXCPU or (status == -signal.SIGKILL and used >= limits.cpu_s):
        why = f"more than {limits.cpu_s} s of processor time"
        return Ran(Outcome.TIMEOUT, why, output)
    if status == -signal.SIGKILL:
        return Ran(Outcome.MEMORY, "killed by the kernel", output)
    how = f"signal {-status}" if status < 0 else f"exit code {status}"
    return Ran(Outcome.ERROR, f"ended by {how} before the tests were over", output)
