"""Runs one program that a model wrote, behind walls, and says how it ended.

The walls (Linux 5.12 or newer): its own network without any connection, its own processes, an
empty root in which only the interpreter and the system's libraries stand, read-only, one folder in
memory as working folder and home, no privileges, an empty environment, and limits on time, memory,
processes, files and output. Where one of them cannot be built nothing is run.

They are made against what models write by accident and against ordinary malice. They are no
protection from a flaw of the kernel, and a program that means to can report itself as passed.
``memory_bytes`` holds per process. A network namespace does not cover sockets between a virtual
machine and its host (AF_VSOCK): where such a host answers, that door is open.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from specbench.errors import PrerequisiteError
from specbench.quality import sandbox_probe, sandbox_program
from specbench.quality.sandbox_outcome import Limits, Outcome, Ran, verdict

_REPORT_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Walls that were tried out; made by ``open_sandbox``.

    Attributes:
        limits: what each program may use.
        python: the interpreter.
        see: files and folders of the host that a program can read.
    """

    limits: Limits
    python: str
    see: tuple[str, ...]

    def run(self, program: str) -> Ran:
        """Run a program from start to end and kill what it leaves behind.

        ``failed`` is an AssertionError, ``error`` any other exception, a signal, or an end before
        the last line. A REFUSED run says nothing about the program.
        """
        with tempfile.TemporaryDirectory(prefix="specbench-") as root:
            reader, writer = os.pipe()
            try:
                return self._start(program.encode("utf-8", "surrogatepass"), root, reader, writer)
            finally:
                os.close(reader)

    def _start(self, program: bytes, root: str, reader: int, writer: int) -> Ran:
        plan = {
            "root": root,
            "see": self.see,
            "python": self.python,
            "limits": asdict(self.limits),
            "starter": Path(sandbox_program.__file__).read_text(encoding="utf-8"),
            "report": writer,
        }
        walls = str(Path(__file__).with_name("sandbox_walls.py"))
        try:
            process = subprocess.Popen(
                [self.python, "-I", "-S", "-B", walls, json.dumps(plan)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={},
                cwd=root,
                pass_fds=[writer],
                start_new_session=True,
            )
        finally:
            os.close(writer)
        late = threading.Event()
        timer = threading.Timer(self.limits.wall_s, _kill, [process.pid, late])
        timer.start()
        try:
            output = _exchange(process, program, self.limits.output_bytes)
            report = _read(reader, _REPORT_BYTES)
        finally:
            # Not waited for yet, so its number still names this process and no other.
            timer.cancel()
            _kill(process.pid)
            process.wait()
        text = output.decode("utf-8", "replace")
        return verdict(report, text, self.limits, late=late.is_set())


def open_sandbox(limits: Limits | None = None) -> Sandbox:
    """A sandbox whose walls were tried with a program that looks for holes.

    Raises:
        PrerequisiteError: this machine cannot build a wall; model-written code is then not run.
    """
    if sys.platform != "linux":
        raise _cannot(f"the walls are made for Linux, this is {sys.platform}")
    python = os.path.realpath(sys.executable)
    sandbox = Sandbox(limits or Limits(), python, tuple(_visible(python)))
    probe = Path(sandbox_probe.__file__).read_text(encoding="utf-8")
    tried = sandbox.run(probe)
    if tried.outcome is not Outcome.PASSED:
        raise _cannot(tried.detail)
    return sandbox


def _cannot(reason: str) -> PrerequisiteError:
    return PrerequisiteError(
        f"model-written code is run only where it can be cut off from network and files; "
        f"this machine cannot do that: {reason}",
        "score the code on a Linux machine (5.12 or newer) that lets you make user namespaces, "
        "or leave code unscored",
    )


def _visible(python: str) -> list[str]:
    """What the interpreter needs to start: its own folders and the system's libraries."""
    own = [os.path.realpath(path) for path in (sys.base_prefix, sys.base_exec_prefix)]
    libraries = ["/usr", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"]
    wanted = [*libraries, "/etc/ld.so.cache", *own, os.path.dirname(python)]
    found: list[str] = []
    for path in wanted:
        inside = any(path == other or path.startswith(f"{other}/") for other in found)
        if os.path.exists(path) and path != "/" and not inside:
            found.append(path)
    return found


def _exchange(process: subprocess.Popen[bytes], program: bytes, limit: int) -> bytes:
    """Hand the program over and read what it prints until all who could print are gone."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(program)
    with process.stdout as stdout:
        return _read(stdout.fileno(), limit)


def _read(descriptor: int, limit: int) -> bytes:
    """Everything up to the end; only the first ``limit`` bytes are kept."""
    kept = b""
    while chunk := os.read(descriptor, 1 << 16):
        kept += chunk[: limit - len(kept)]
    return kept


def _kill(group: int, late: threading.Event | None = None) -> None:
    if late is not None:
        late.set()
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
