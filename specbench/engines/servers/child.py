"""A child process with a group of its own, tied to this one, whose output is kept."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from specbench.engines.servers.output import BoundedLog
from specbench.errors import PrerequisiteError

GRACE_S = 10.0
TIED = Path(__file__).with_name("tied.py")


class Child:
    """A process, and the thread that started it and reads what it prints.

    The kernel ties a child to the thread that started it, not to the process (prctl(2)): that
    thread must live as long as the child does.

    Args:
        command: program and arguments.
        environment: all its variables.
        log: file for what it prints.

    Raises:
        PrerequisiteError: the system refuses another process.
    """

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = BoundedLog(log)
        self._command = command
        self._environment = environment
        self._started = threading.Event()
        self._failure: OSError | None = None
        self.process: subprocess.Popen[bytes]
        self._thread = threading.Thread(target=self._run, name="server output", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self.log.close()
            raise PrerequisiteError(f"cannot start a process: {self._failure}")

    def _run(self) -> None:
        tied = [sys.executable, "-I", "-S", str(TIED), str(os.getpid()), *self._command]
        try:
            self.process = subprocess.Popen(
                tied,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(self._environment),
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self._failure = error
            return
        finally:
            self._started.set()
        assert self.process.stdout is not None
        with self.process.stdout as output:
            while chunk := output.read(1 << 16):
                self.log.write(chunk)
        self.process.wait()

    def ended(self) -> str:
        """How it ended, in a sentence; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        return f"the server's process ended ({how})"

    def stop(self, grace_s: float) -> None:
        """End its process group, politely first, and reap it; an interrupt ends the politeness."""
        try:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(grace_s)
        finally:
            # Also after a clean end: what it started may have outlived it.
            self._signal(signal.SIGKILL)
            self.process.wait()
        self._thread.join(GRACE_S)
        self.log.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
