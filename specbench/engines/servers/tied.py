"""Runs a program that ends when the process that asked for it ends, however that ends.

Run as a file, ``tied.py PARENT COMMAND...``: asks the kernel for SIGTERM at the parent's death
(prctl(2), PR_SET_PDEATHSIG; Linux only, elsewhere nothing is asked) and becomes the command. A
program of its own, because code between fork and exec may not run in a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Become ``arguments[1:]``; returns only where that is impossible, with the shell's codes."""
    parent, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            return 128 + signal.SIGTERM
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        sys.stderr.write(f"no program {command[0]}\n")
        return 127
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
        return 126


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
