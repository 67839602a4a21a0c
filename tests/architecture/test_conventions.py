"""Who may print, which modules live without torch, and what no file may contain."""

from __future__ import annotations

import ast
import contextlib
import re
import subprocess
import sys

import pytest

from specbench.catalog import DRAFTERS, RULES
from tests.architecture.sources import PACKAGE, ROOT, relative, tree
from tests.conftest import LONGEST, TESTS

TORCH_FREE = [
    *("core", "stats", "metrics", "fidelity", "quality", "roofline", "suites"),
    *("results", "report", "cli"),
]

MACHINE_PATHS = re.compile(
    # a folder of one machine, or the address of a package registry
    r"(?<![\w.$}])/(?:work|root)/\w"
    r"|pythonhosted\.org|pypi\.org|registry\.npmjs\.org|deb\.debian\.org|download\.pytorch\.org"
)

SILENT = [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "cli" not in path.parents]


def modules(folder: str) -> list[str]:
    return [
        relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
    ]


@pytest.mark.parametrize("folder", TORCH_FREE)
def test_imports_no_torch(folder):
    program = f"import sys, {', '.join(modules(folder))}\n"
    program += "assert not {'torch', 'transformers'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", SILENT, ids=relative)
def test_only_the_command_line_prints_or_exits(path):
    calls = [ast.unparse(n.func) for n in ast.walk(tree(path)) if isinstance(n, ast.Call)]
    assert not {"print", "exit", "quit", "sys.exit", "click.echo"} & set(calls)


def test_the_loop_knows_no_method_by_name():
    strings = {
        node.value
        for node in ast.walk(tree(PACKAGE / "decoding" / "loop.py"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not strings & (DRAFTERS.keys() | RULES.keys())


def texts():
    """Files that are or would be committed, as (path, text); binary files are left out."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for path in (ROOT / name for name in done.stdout.splitlines()):
        with contextlib.suppress(UnicodeDecodeError, FileNotFoundError):
            yield relative(path), path.read_text()


def test_no_machine_paths_and_no_registry_hosts():
    matches = [
        (path, found.group()) for path, text in texts() for found in MACHINE_PATHS.finditer(text)
    ]
    assert not matches


def test_files_that_begin_first_are_there():
    assert not [name for name in LONGEST if not (TESTS / name).is_file()]
