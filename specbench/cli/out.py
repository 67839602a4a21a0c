"""Options of commands that read runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def out_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--out``, the folder in which ids and ``last`` are looked up, as ``out``."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path("results"),
        show_default=True,
        help="Folder of runs, for ids and 'last'.",
    )(command)


def assume_same_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--assume-same``, for what servers do not say of themselves, as ``assume_same``."""
    return click.option(
        "--assume-same",
        is_flag=True,
        help="Take what servers do not say, such as their weights, as equal.",
    )(command)
