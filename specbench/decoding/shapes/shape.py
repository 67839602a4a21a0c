"""The shape of a static tree: which ranks of which nodes' candidates are drafted, whatever tokens.

A rank path (0, 2, 1) is the second candidate below the third below the best of the root's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

_LISTED = 64
"""Nodes up to which a record lists rank paths instead of their hash."""


@dataclass(frozen=True)
class TreeShape:
    """Nodes in topological order, level by level, siblings in the order of their ranks.

    Attributes:
        parents: [N] parent of each node, -1 for children of the root.
        ranks: [N] place of each node among the candidates of its parent, from 0.
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[int]]) -> TreeShape:
        """From rank paths in any order.

        Raises:
            ValueError: a path that occurs twice, is empty or holds a negative rank, or one whose
                parent is no path.
        """
        ordered = sorted((tuple(path) for path in paths), key=lambda path: (len(path), path))
        places: dict[tuple[int, ...], int] = {(): -1}
        parents = []
        for path in ordered:
            if path in places:
                raise ValueError(f"the path {list(path)} is empty or occurs twice")
            if min(path) < 0:
                raise ValueError(f"the path {list(path)} holds a negative rank")
            if path[:-1] not in places:
                raise ValueError(f"the path {list(path)} has no parent {list(path[:-1])}")
            parents.append(places[path[:-1]])
            places[path] = len(places) - 1
        return cls(tuple(parents), tuple(path[-1] for path in ordered))

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """[N], 1 for children of the root."""
        found: list[int] = []
        for parent in self.parents:
            found.append(1 if parent < 0 else found[parent] + 1)
        return tuple(found)

    @property
    def depth(self) -> int:
        """Nodes on the longest path."""
        return max(self.depths, default=0)

    @property
    def breadth(self) -> int:
        """Candidates needed at one node: the largest rank plus one."""
        return max(self.ranks, default=-1) + 1

    def paths(self) -> list[tuple[int, ...]]:
        """Rank paths in node order."""
        found: list[tuple[int, ...]] = []
        for parent, rank in zip(self.parents, self.ranks, strict=True):
            found.append((*(found[parent] if parent >= 0 else ()), rank))
        return found

    def facts(self) -> dict[str, object]:
        """Nodes, depth, and the rank paths or, of a large shape, their hash: for records.

        Paths are listed by depth, then by rank, whatever order the nodes are in.
        """
        paths = [list(path) for path in sorted(self.paths(), key=lambda path: (len(path), path))]
        size = {"nodes": len(self), "depth": self.depth}
        if len(paths) <= _LISTED:
            return {**size, "paths": paths}
        text = json.dumps(paths, separators=(",", ":"))
        return {**size, "paths_sha256": hashlib.sha256(text.encode()).hexdigest()}

    def cut(self, depth: int) -> TreeShape:
        """The nodes of at most ``depth``; they are the first ones."""
        kept = sum(one <= depth for one in self.depths)
        return TreeShape(self.parents[:kept], self.ranks[:kept])
