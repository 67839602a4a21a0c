"""The shape of a static tree from what an arm's option ``tree`` says."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from specbench.catalog import nearest
from specbench.decoding.shapes.best_first import best_first
from specbench.decoding.shapes.cartesian import cartesian, node_count
from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.shapes.named import NAMED, named
from specbench.decoding.shapes.optimal import optimal
from specbench.decoding.shapes.shape import TreeShape
from specbench.errors import PrerequisiteError, UsageError

MAX_NODES = 1024
"""A larger tree costs more to verify than its tokens to decode one by one."""
DEFAULT_DEPTH = 16
"""Longest path of a searched shape where accuracies hold at every depth and no depth is given."""
WRITE = (
    'write a name ("eagle_25"), candidates per level ("4x3x2"), rank paths ([[0], [1], [0, 0]]), '
    'or a search ("best_first:63:FILE.json", "optimal:63:FILE.json")'
)
FILE = (
    'the file holds {"accuracies": ROWS, "depth": D}: ROWS by depth and rank, [[0.6, 0.1], '
    "[0.5, 0.1]], or by rank alone, [0.6, 0.1]; depth may be left out"
)

Search = Callable[[Accuracies, int, int], TreeShape]

SEARCHES: Mapping[str, Search] = {
    "best_first": best_first,
    "optimal": lambda accuracies, nodes, depth: optimal(accuracies, nodes, depth)[0],
}
"""Name before the first colon -> how the shape is found."""


def parse_shape(value: object, where: str) -> TreeShape:
    """The shape that an option names, spells out or has searched.

    Args:
        value: a name, ``AxBxC``, a list of rank paths, or ``best_first:N:FILE`` and
            ``optimal:N:FILE`` with measured accuracies in a JSON file.
        where: the arm, for messages.

    Raises:
        UsageError: none of these, or more than ``MAX_NODES`` nodes.
        PrerequisiteError: the file is not there.
    """
    said = f"{where}: tree = {value!r}"
    if isinstance(value, str):
        return _from_text(value.strip(), said)
    if not isinstance(value, Sequence) or not all(_is_path(path) for path in value):
        raise UsageError(f"{said} is no shape of a tree", WRITE)
    _refuse_large(len(value), said)
    try:
        shape = TreeShape.from_paths(value)
    except ValueError as error:
        raise UsageError(
            f"{said}: {error}", "list every path once, with all paths that it goes through"
        ) from None
    _refuse_large(len(shape), said)
    return shape


def _from_text(text: str, said: str) -> TreeShape:
    if text in NAMED:
        return named(text)
    if re.fullmatch(r"\d+(x\d+)*", text):
        sizes = [int(size) for size in text.split("x")]
        _refuse_large(node_count(sizes), said)
        return cartesian(sizes)
    search, colon, rest = text.partition(":")
    if not colon:
        raise UsageError(
            f"{said}: no such tree", nearest(text, ["chain", "dynamic", *NAMED]) + f"; {WRITE}"
        )
    if search not in SEARCHES:
        raise UsageError(f"{said}: no search {search!r}", nearest(search, list(SEARCHES)))
    count, _, file = rest.partition(":")
    if not count.isdigit() or not file:
        raise UsageError(
            f"{said} is not {search}:NODES:FILE", f'write for example "{search}:63:accuracies.json"'
        )
    _refuse_large(int(count), said)
    accuracies, depth = _accuracies(Path(file), said)
    return SEARCHES[search](accuracies, int(count), depth)


def _accuracies(path: Path, said: str) -> tuple[Accuracies, int]:
    """What a file holds: accuracies, and the longest path."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PrerequisiteError(f"{said}: {path}: {error.strerror}", FILE) from None
    except ValueError as error:
        raise UsageError(f"{said}: {path} is no JSON: {error}", FILE) from None
    if not isinstance(found, dict) or not isinstance(found.get("accuracies"), list):
        raise UsageError(f'{said}: {path} holds no list "accuracies"', FILE)
    try:
        accuracies = Accuracies.of(found["accuracies"])
    except ValueError as error:
        raise UsageError(f"{said}: {path}: accuracies: {error}", FILE) from None
    depth = found.get("depth", DEFAULT_DEPTH if accuracies.endless else len(accuracies.rows))
    if not isinstance(depth, int) or isinstance(depth, bool) or not 1 <= depth <= MAX_NODES:
        raise UsageError(f"{said}: {path}: depth = {depth!r}", FILE)
    return accuracies, depth


def _refuse_large(nodes: int, said: str) -> None:
    if not 1 <= nodes <= MAX_NODES:
        raise UsageError(f"{said} has {nodes} nodes", f"use 1 to {MAX_NODES} nodes")


def _is_path(path: object) -> bool:
    return isinstance(path, Sequence) and all(
        isinstance(rank, int) and not isinstance(rank, bool) for rank in path
    )
