"""A server of one's own: started, waited for, watched, and gone when we are."""

from __future__ import annotations

import atexit
import http.client
import os
import shlex
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from specbench.engines.servers import given
from specbench.engines.servers.child import GRACE_S, Child
from specbench.engines.servers.ports import listens
from specbench.engines.servers.protocol import Launcher, ServerPlan
from specbench.errors import PrerequisiteError

Clock = Callable[[], float]
Sleep = Callable[[float], None]

POLL_S = 0.1
PROBE_S = 5.0


@dataclass(slots=True)
class Running:
    """One started server.

    Attributes:
        url: base address.
        pid: of its first process, which leads a process group of its own.
        facts: for the manifest: ``command`` and ``environment`` (keys and passwords hidden),
            ``version``, ``files``, ``seconds_to_ready``.
    """

    url: str
    pid: int
    facts: Mapping[str, object]
    _health: str
    _child: Child
    _folder: tempfile.TemporaryDirectory[str]
    _stopped: bool = field(default=False)

    def alive(self) -> bool:
        """Whether its first process still runs."""
        return self._child.process.poll() is None

    def answers(self, timeout_s: float = PROBE_S) -> bool:
        """Whether it says within that time that it is well; a server that hangs does not."""
        return self.alive() and _healthy(self.url + self._health, timeout_s)

    def log_tail(self, lines: int = 20) -> list[str]:
        """The last lines it printed."""
        return self._child.log.tail(lines)

    def ended(self) -> str:
        """One sentence for traces and errors: how the process ended; empty while it runs."""
        return self._child.ended()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End the whole process group, politely first, and reap it. Harmless when repeated.

        An interrupt cuts the grace short; what it leaves undone is done by the next call, at the
        latest when this process ends.
        """
        if self._stopped:
            return
        self._child.stop(grace_s)
        self._folder.cleanup()
        atexit.unregister(self.stop)
        self._stopped = True

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(
    launcher: Launcher,
    plan: ServerPlan,
    log: Path | None = None,
    timeout_s: float = 600.0,
    *,
    clock: Clock = time.monotonic,
    sleep: Sleep = time.sleep,
) -> Running:
    """Start a server and wait until it is ready.

    Args:
        launcher: the kind of server.
        plan: what to start.
        log: file for what it prints; None = a temporary one that goes with the server.
        timeout_s: seconds it may take to become ready.
        clock, sleep: monotonic seconds.

    Raises:
        PrerequisiteError: not installed, ended before it was ready (with the last lines that it
            printed), or not ready in time. Nothing of it is left then.
        UsageError: the arm has no equivalent on this kind of server.
    """
    launcher.check(plan.arm)
    if listens(plan.host, plan.port):
        # Its answers would be taken for those of the server to be started.
        raise PrerequisiteError(
            f"arm {plan.arm.name}: something else listens on {plan.host}:{plan.port}", "try again"
        )
    folder = tempfile.TemporaryDirectory(prefix="specbench-server-")
    try:
        plan = replace(plan, version=_version(launcher, plan), folder=folder.name)
        files = launcher.files(plan)
        for name, content in files.items():
            Path(folder.name, name).write_text(content)
        command = launcher.command(plan)
        extra = {**launcher.environment(plan), **given.variables(plan.arm)}
        child = Child(command, _environment(extra), log or Path(folder.name, "log.txt"))
    except BaseException:
        folder.cleanup()
        raise
    facts: dict[str, object] = {
        "command": given.portable(shlex.join(given.without_secrets(command))),
        "environment": given.open_variables(extra),
        "version": plan.version or "unknown: a command of its own",
        "files": files,
    }
    running = Running(
        f"http://{plan.host}:{plan.port}", child.process.pid, facts, launcher.health, child, folder
    )
    atexit.register(running.stop)
    try:
        facts["seconds_to_ready"] = _wait(running, plan, timeout_s, clock, sleep)
    except BaseException:
        running.stop()
        raise
    return running


def _version(launcher: Launcher, plan: ServerPlan) -> str | None:
    if given.words(plan.arm, "command"):
        return None
    return launcher.version(launcher.python(plan.arm))


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Ours and the extra ones; programs installed beside this interpreter are found first."""
    inherited = dict(os.environ)
    beside = str(Path(sys.executable).parent)
    inherited["PATH"] = os.pathsep.join(filter(None, [beside, inherited.get("PATH", "")]))
    return {**inherited, **extra}


def _wait(
    running: Running, plan: ServerPlan, timeout_s: float, clock: Clock, sleep: Sleep
) -> float:
    """Seconds until the server said that it is ready."""
    begin = clock()
    while clock() - begin < timeout_s:
        if running.ended():
            raise _failed(running, plan, running.ended())
        # The process is looked at again: another program might have been faster on the port.
        if running.answers() and running.alive():
            return clock() - begin
        sleep(POLL_S)
    raise _failed(running, plan, f"the server was not ready after {timeout_s:.0f} s")


def _failed(running: Running, plan: ServerPlan, what: str) -> PrerequisiteError:
    # Its last words may still be on their way through the pipe.
    running.stop(grace_s=1.0)
    lines = running.log_tail()
    printed = "\n".join(f"    {line}" for line in lines) or "    (nothing)"
    return PrerequisiteError(
        f"arm {plan.arm.name}: {what}; it last printed:\n{printed}",
        f"it was started with: {running.facts['command']}",
    )


def _healthy(url: str, timeout_s: float) -> bool:
    # Loopback is never behind a proxy, whatever the environment says.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, http.client.HTTPException, ValueError):
        return False
