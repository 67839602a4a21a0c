"""The tree with most expected accepted tokens for its size, by dynamic programme.

Sequoia (Chen et al. 2402.12374, section 3.1): where accuracies do not depend on the tokens before,
what a subtree is worth depends on its depth and size alone. Children of a node are its candidates
of ranks 0, 1, ...; no order of the accuracies is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.shapes.shape import TreeShape

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Level:
    """The best choices below a node of one depth.

    Attributes:
        worth: [N + 1] expected accepted tokens below an accepted node, by the nodes there; -inf
            where there is no room for so many.
        children: [N + 1] how many children the best choice has.
        sizes: per rank [N + 1], nodes in the subtree of that child where it is the last one, by
            the nodes of it and its better siblings.
    """

    worth: Values
    children: Counts
    sizes: list[Counts]


def optimal(
    accuracies: Accuracies, nodes: int, depth: int, breadth: int | None = None
) -> tuple[TreeShape, float]:
    """The best shape of ``nodes`` nodes and its expected accepted tokens.

    Fewer nodes where depth and ranks leave no room for them.

    Args:
        accuracies: by depth and rank; ranks that have none are not drafted.
        nodes: nodes, the root not counted.
        depth: nodes on the longest path at most.
        breadth: children of a node at most; None = as many as there are accuracies.
    """
    levels = [_leaf(nodes)]
    for below in range(depth, 0, -1):
        row = accuracies.at(below)[:breadth]
        levels.append(_level(row, levels[-1].worth))
    levels.reverse()
    most = int(np.flatnonzero(levels[0].worth > -np.inf)[-1])
    paths = _paths(levels, most)
    return TreeShape.from_paths(paths), float(levels[0].worth[most])


def _leaf(nodes: int) -> _Level:
    worth = np.full(nodes + 1, -np.inf)
    worth[0] = 0.0
    return _Level(worth, np.zeros(nodes + 1, dtype=np.int64), [])


def _level(row: tuple[float, ...], below: Values) -> _Level:
    """Choices below a node whose children have the accuracies of ``row``.

    Args:
        below: worth of what hangs below a child, by its nodes.
    """
    best = _leaf(len(below) - 1)
    worth, children, sizes = best.worth, best.children, best.sizes
    so_far = worth
    for rank, accuracy in enumerate(row):
        # A child of accuracy 0 has subtrees of worth 0, not of 0 times -inf.
        room = below[:-1] > -np.inf
        child = np.where(room, accuracy * (1.0 + np.where(room, below[:-1], 0.0)), -np.inf)
        so_far, size = _combined(so_far, child)
        sizes.append(size)
        better = so_far > worth
        worth = np.where(better, so_far, worth)
        children = np.where(better, rank + 1, children)
    return _Level(worth, children, sizes)


def _combined(before: Values, child: Values) -> tuple[Values, Counts]:
    """max over s >= 1 of before[m - s] + child[s - 1], and the best s, for every m."""
    count = len(child)
    padded = np.concatenate([np.full(count, -np.inf), before])
    # windows[m, s - 1] is before[m - s], -inf where m < s
    windows = np.lib.stride_tricks.sliding_window_view(padded[:-1], count)[:, ::-1]
    sums = windows + child
    best = sums.argmax(1)
    return sums[np.arange(count + 1), best], best + 1


def _paths(levels: list[_Level], nodes: int) -> list[tuple[int, ...]]:
    """Rank paths of the best choices for ``nodes`` nodes below the root."""
    found: list[tuple[int, ...]] = []
    waiting: list[tuple[tuple[int, ...], int]] = [((), nodes)]
    while waiting:
        path, left = waiting.pop()
        level = levels[len(path)]
        for rank in range(int(level.children[left]) - 1, -1, -1):
            size = int(level.sizes[rank][left])
            found.append((*path, rank))
            waiting.append(((*path, rank), size - 1))
            left -= size
    return found
