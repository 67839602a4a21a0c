"""The statements of a text that parses as Python."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a statement at the top level does."""

    FUTURE = "future import"
    IMPORT = "import"
    DEFINITION = "function or class"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement at the top level: its source lines, kind and the names it defines."""

    text: str
    kind: Kind
    names: frozenset[str]


def parse(code: str) -> ast.Module | None:
    """The syntax tree, or None where the running interpreter takes the code for no Python."""
    with warnings.catch_warnings():
        # An invalid escape is a matter of the answer's style, nothing to tell the user.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def statements(code: str) -> list[Statement] | None:
    """The statements at the top level, or None where the code does not parse.

    Statements that share a line are one.
    """
    tree = parse(code)
    if tree is None:
        return None
    lines = code.split("\n")
    found: list[Statement] = []
    last = 0
    for node in tree.body:
        decorators = getattr(node, "decorator_list", [])
        first = min(place.lineno for place in (node, *decorators))
        if first > last:
            text = "\n".join(lines[first - 1 : node.end_lineno])
            found.append(Statement(text, _kind(node), frozenset(_names(node))))
        else:
            above = found.pop()
            found.append(Statement(above.text, above.kind, above.names | _names(node)))
        last = node.end_lineno or first
    return found


def defined(code: Sequence[Statement]) -> set[str]:
    """Names that these statements define: functions, classes and assigned names."""
    return {name for statement in code for name in statement.names}


def longest(code: str, name: str) -> list[Statement] | None:
    """The statements of the longest run of lines from the start that parses and defines ``name``.

    This leaves out prose below the code and a last line that the length limit cut.
    """
    lines = code.split("\n")
    for end in range(len(lines), 0, -1):
        piece = "\n".join(lines[:end])
        if name not in piece:
            break
        found = statements(piece)
        if found is not None and name in defined(found):
            return found
    return None


def _kind(node: ast.stmt) -> Kind:
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return Kind.FUTURE
    if isinstance(node, ast.Import | ast.ImportFrom):
        return Kind.IMPORT
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return Kind.DEFINITION
    return Kind.OTHER


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}
