"""What the interpreter inside the sandbox starts: runs one program and ends with its verdict.

Copied into the sandbox as it stands; imports nothing but the standard library.
"""

from __future__ import annotations

import os
import sys
import types

PASSED, FAILED, MEMORY, ERROR = 41, 42, 43, 44
"""Exit codes. None of them is 0 or 1: a program that ends itself early has not passed."""


def run(path: str) -> int:
    """Execute the program as a module that is not ``__main__``; its verdict as an exit code."""
    module = types.ModuleType("answer")
    sys.modules["answer"] = module
    try:
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), "answer.py", "exec")
        exec(code, module.__dict__)
    except AssertionError:
        sys.excepthook(*sys.exc_info())
        return FAILED
    except MemoryError:
        return MEMORY
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return ERROR
    return PASSED


def main() -> None:
    """Run the program named on the command line; threads it left behind do not hold up the end."""
    end = os._exit  # taken before the program can replace it
    verdict = run(sys.argv[1])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the program may have put anything in the stream's place
            continue
    end(verdict)


if __name__ == "__main__":
    main()
