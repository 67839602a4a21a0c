"""Medusa's search for a tree: the best neighbour is added, again and again.

Cai et al. 2401.10774, section 2.3.3, and ``gen_results.py`` of its code. A neighbour is the next
sibling or the first child of a node of the tree. A child is worth no more than its parent, so the
tree is the best of its size wherever accuracies fall with the rank; where they do not,
``optimal`` is better.
"""

from __future__ import annotations

import heapq

from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.shapes.shape import TreeShape


def best_first(accuracies: Accuracies, nodes: int, depth: int) -> TreeShape:
    """A shape of ``nodes`` nodes, fewer where depth and ranks leave no room for them.

    Args:
        accuracies: by depth and rank; ranks that have none are not drafted.
        nodes: nodes, the root not counted.
        depth: nodes on the longest path at most.
    """
    found: list[tuple[int, ...]] = []
    # Among equal values the shorter path and the better rank come first, as the heap compares.
    heap: list[tuple[float, int, tuple[int, ...], float]] = []

    def offer(path: tuple[int, ...], above: float) -> None:
        row = accuracies.at(len(path))
        if len(path) <= depth and path[-1] < len(row):
            heapq.heappush(heap, (-above * row[path[-1]], len(path), path, above))

    offer((0,), 1.0)
    while heap and len(found) < nodes:
        value, _, path, above = heapq.heappop(heap)
        found.append(path)
        offer((*path[:-1], path[-1] + 1), above)
        offer((*path, 0), -value)
    return TreeShape.from_paths(found)
