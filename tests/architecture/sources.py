"""The Python sources that the architecture tests look at."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "specbench"
SOURCES = sorted(
    path for folder in ("specbench", "scripts", "tests") for path in (ROOT / folder).rglob("*.py")
)


def relative(path: Path) -> str:
    """A path as the tests print it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text())
