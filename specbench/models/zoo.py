"""Heads that ship with specbench, by name: ``zoo:NAME`` is a folder of its package data."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from specbench.catalog import nearest
from specbench.errors import PrerequisiteError, UsageError

PREFIX = "zoo:"

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)


def zoo_folder() -> Path:
    """Where the heads of this installation lie; it is not there where none were built in."""
    return Path(str(files("specbench"))) / "zoo"


def zoo_names(root: Path | None = None) -> list[str]:
    """Names below ``root``, sorted; a link that leads out of it is none.

    Args:
        root: folder of heads; None for ``zoo_folder()``.
    """
    root = root or zoo_folder()
    if not root.is_dir():
        return []
    home = root.resolve()
    return sorted(
        folder.name
        for folder in root.iterdir()
        if _NAME.fullmatch(folder.name) and folder.is_dir() and folder.resolve().parent == home
    )


def shipped_folder(name: str, root: Path | None = None) -> Path:
    """The folder of ``zoo:NAME``.

    Args:
        name: with the prefix.
        root: as ``zoo_names``.

    Raises:
        UsageError: no such name, paths among them.
        PrerequisiteError: this installation has no heads at all.
    """
    known = zoo_names(root)
    if not known:
        raise PrerequisiteError(
            f"{name}: no heads came with this installation of specbench",
            "name a head's folder; specbench train makes one",
        )
    short = name.removeprefix(PREFIX)
    if short not in known:
        raise UsageError(f"unknown head {name!r}", nearest(name, [PREFIX + one for one in known]))
    return (root or zoo_folder()) / short
