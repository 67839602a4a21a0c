"""From exceptions to exit codes: one line on stderr, what to do next, never a bare traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import click

from specbench.errors import SpecbenchError

FAILED = 1
INTERRUPTED = 130


def guarded(command: Callable[[], object]) -> int:
    """Run a command and return the process's exit code; an integer result is that code.

    With ``SPECBENCH_DEBUG=1`` in the environment every error also shows its traceback.
    """
    try:
        result = command()
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BrokenPipeError:
        return _reader_left()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted; what was finished is on disk")
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except SpecbenchError as error:
        _show_traceback()
        _say(f"error: {error}")
        return error.exit_code
    except Exception as error:  # the last line of defence: whatever it is, say it in one line
        if not _show_traceback():
            _say("SPECBENCH_DEBUG=1 shows where this came from", before=_one_line(error))
        return FAILED


def _say(text: str, before: str = "") -> None:
    if before:
        click.echo(before, err=True)
    click.echo(text, err=True)


def _one_line(error: Exception) -> str:
    first = next(iter(str(error).splitlines()), "")
    return f"error: {type(error).__name__}: {first}"


def _show_traceback() -> bool:
    wanted = os.environ.get("SPECBENCH_DEBUG", "") not in ("", "0")
    if wanted:
        traceback.print_exc(file=sys.stderr)
    return wanted


def _reader_left() -> int:
    """`specbench ... | head`: not worth a message, but the answer was not delivered either."""
    # The interpreter flushes stdout once more at exit; it must not find the closed pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED
