"""Which version of a server's package is installed, under which interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from specbench.core.arm import ArmSpec
from specbench.engines.servers.given import interpreter
from specbench.errors import PrerequisiteError

_ASK = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


def package_version(python: str, package: str, install: str) -> str:
    """Version of a package under an interpreter.

    Raises:
        PrerequisiteError: no such interpreter, or the package is missing there; ``install`` is
            what to type then.
    """
    try:
        asked = subprocess.run(
            [python, "-c", _ASK, package], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PrerequisiteError(
            f"cannot run {python}: {error}", "set server.python of the arm to an interpreter"
        ) from None
    if asked.returncode != 0:
        raise PrerequisiteError(
            f"{package} is not installed under {python}",
            f"{install}, or set server.python of the arm",
        )
    return asked.stdout.strip()


def python_of(arm: ArmSpec, program: str) -> str:
    """The interpreter of the arm; where it names none, the one that an installed program runs
    under by its first line, and else this one.
    """
    return interpreter(arm, _interpreter_in(program))


def _interpreter_in(program: str) -> str | None:
    beside = str(Path(sys.executable).parent)
    found = shutil.which(program, path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        return None
    with open(found, "rb") as script:
        first = script.readline(512)
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    python = words[0] if words else ""
    return python if Path(python).name.startswith("python") and Path(python).is_file() else None
