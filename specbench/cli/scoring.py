"""The ``--score`` option: what is done with answers that only running them can score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def score_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--score`` to a command, as ``score``."""
    return click.option(
        "--score",
        type=click.Choice(["code"]),
        multiple=True,
        help="code: run model-written Python against the tests of its prompt, in a sandbox "
        "without internet or your files; off by default.",
    )(command)


def require_sandbox() -> None:
    """Say that code will be run, and refuse before anything else where it cannot be fenced off."""
    from specbench.quality.sandbox import open_sandbox

    open_sandbox()
    click.echo(
        "--score code: model-written code will be run, in a sandbox without internet or your "
        "files, with limits on time, memory per process, processes and files",
        err=True,
    )
