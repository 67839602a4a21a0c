"""Small files and functions, named after what they hold: the bounds of docs/architecture.md."""

from __future__ import annotations

import ast
from statistics import median

import pytest

from tests.architecture.sources import PACKAGE, ROOT, SOURCES, relative, tree

MAX_FILE, MAX_MEDIAN, MAX_FUNCTION = 400, 100, 60
JUNK_DRAWERS = {"utils.py", "helpers.py", "common.py", "misc.py"}
CODE = [path for path in SOURCES if ROOT / "tests" not in path.parents]

LONG_FUNCTIONS: dict[str, str] = {}
"""Exceptions, "path:function" -> the reason why it reads better in one piece."""


def lines(path) -> int:
    return len(path.read_text().splitlines())


def functions(path):
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{relative(path)}:{node.name}", node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_file_is_too_long(path):
    assert lines(path) <= MAX_FILE


def test_the_median_file_is_short():
    sizes = [lines(path) for path in PACKAGE.rglob("*.py") if lines(path) > 0]
    assert median(sizes) <= MAX_MEDIAN


@pytest.mark.parametrize("path", CODE, ids=relative)
def test_no_function_is_too_long(path):
    long = {name: size for name, size in functions(path) if size > MAX_FUNCTION}
    assert not long.keys() - LONG_FUNCTIONS.keys(), long


def test_exceptions_are_still_needed():
    sizes: dict[str, int] = {}
    for path in CODE:
        for name, size in functions(path):
            sizes[name] = max(size, sizes.get(name, 0))
    stale = [name for name in LONG_FUNCTIONS if sizes.get(name, 0) <= MAX_FUNCTION]
    assert not stale


def test_no_junk_drawers():
    assert not [relative(path) for path in SOURCES if path.name in JUNK_DRAWERS]


def test_the_sources_are_found():
    assert ROOT / "specbench" / "catalog.py" in SOURCES
