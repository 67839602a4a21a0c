"""Prompts about the Python standard library: code and text that every installation has.

The tasks are what people ask of assistants; the material is functions and documentation strings of
the modules that this Python was installed with. Nothing of it is kept beyond the data folder.
"""

from __future__ import annotations

import ast
import os
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

PER_FILE = 6
"""Prompts from one module, at most: the library is wide."""
SHORTEST, LONGEST = 3, 30
"""Lines of a function."""
MOST_CHARACTERS = 1200
"""Characters of a function, at most."""
SENTENCES = (60, 300)
"""Characters of a text that is translated or rewritten, at least and at most."""

CODE_TASKS = (
    "Write the body of this function.\n\n```python\n{head}\n```",
    "Complete this function:\n\n```python\n{head}\n```",
    "Write a Python function `{name}` that does this: {summary}",
    "What does this function do?\n\n```python\n{code}\n```",
    "Explain this code step by step.\n\n```python\n{code}\n```",
    "Write pytest tests for this function.\n\n```python\n{code}\n```",
    "Refactor this function to make it easier to read. "
    "Keep its behaviour.\n\n```python\n{code}\n```",
    "Is there a bug in this function? If so, fix it.\n\n```python\n{code}\n```",
    "Add type hints and a docstring to this function.\n\n```python\n{bare}\n```",
    "Rewrite this Python function in JavaScript.\n\n```python\n{bare}\n```",
)
TEXT_TASKS = (
    "Summarise the following text in two sentences.\n\n{text}",
    "Explain this to a beginner:\n\n{text}",
    "Rewrite this text so that it is shorter and easier to read:\n\n{text}",
    "What are the main points of this text?\n\n{text}",
    "Translate the following English text into German:\n\n{text}",
    "Translate this from English to French. Give only the translation.\n\n{text}",
    "How would you say this in Spanish? Reply with the translation alone.\n\n{text}",
    "Please translate the text below into Chinese.\n\n{text}",
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library, moved to the left margin.

    Attributes:
        name: its name.
        summary: first paragraph of its documentation string, on one line.
        head: signature and documentation string.
        code: all of it.
        bare: all but the documentation string.
    """

    name: str
    summary: str
    head: str
    code: str
    bare: str


def library_prompts(
    kind: str, count: int, seed: int, root: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Places (module and function, or module and number) and texts of prompts.

    Fewer where the library has no more material. Files that cannot be read or parsed are skipped.

    Args:
        kind: ``code`` or ``text``.
        count: how many.
        seed: chooses material and tasks.
        root: folder of the modules; that of this Python's standard library if None.
    """
    chance = random.Random(f"{kind}:{seed}")
    files = _files(root or Path(sysconfig.get_path("stdlib")))
    chance.shuffle(files)
    made = 0
    for path in files:
        for name, text in islice(_asked(path, kind, chance), PER_FILE):
            if made == count:
                return
            yield f"{path.stem}-{name}", text
            made += 1


_NO_LIBRARY = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "idle_test"}
)
"""Folders of installed packages, of tests, and of programs that come with Python."""


def _files(root: Path) -> list[Path]:
    found = []
    for folder, inside, names in os.walk(root):
        inside[:] = [name for name in inside if name not in _NO_LIBRARY]
        found += [Path(folder, name) for name in names if name.endswith(".py")]
    return sorted(found)


def _asked(path: Path, kind: str, chance: random.Random) -> Iterator[tuple[str, str]]:
    try:
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            # What a module's own escapes look like is nothing that a user of this can mend.
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    if kind == "code":
        for function in _functions(tree, source):
            task = chance.choice(CODE_TASKS)
            yield (
                function.name,
                task.format(
                    name=function.name,
                    summary=function.summary,
                    head=function.head,
                    code=function.code,
                    bare=function.bare,
                ),
            )
        return
    for number, text in enumerate(_texts(tree)):
        yield str(number), chance.choice(TEXT_TASKS).format(text=text)


def _functions(tree: ast.Module, source: str) -> Iterator[Function]:
    # Not splitlines: a form feed ends no line for Python.
    lines = source.split("\n")
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        said = ast.get_docstring(node)
        own = lines[node.lineno - 1 : node.end_lineno]
        if not said or not SHORTEST <= len(own) <= LONGEST or not node.body[1:]:
            continue
        moved = _to_margin(own)
        if len("\n".join(moved)) > MOST_CHARACTERS:
            continue
        string = node.body[0]
        above, below = string.lineno - node.lineno, (string.end_lineno or 0) - node.lineno + 1
        yield Function(
            name=node.name,
            summary=re.split(r"\n\s*\n", said)[0].replace("\n", " "),
            head="\n".join(moved[:below]),
            code="\n".join(moved),
            bare="\n".join([*moved[:above], *moved[below:]]),
        )


def _to_margin(lines: list[str]) -> list[str]:
    """Lines without the indent of the first; what strings hold further left keeps its text."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    return [line[min(indent, len(line) - len(line.lstrip())) :] for line in lines]


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
            text = " ".join(paragraph.split())
            # Prose has spaces and ends; tables, signatures and examples do not.
            prose = text.endswith((".", "!", "?")) and ">>>" not in text
            if prose and SENTENCES[0] <= len(text) <= SENTENCES[1]:
                yield text
