"""All combinations of some candidates per level (Medusa, Cai et al. 2401.10774, section 2.1.2)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

from specbench.decoding.shapes.shape import TreeShape


def node_count(sizes: Sequence[int]) -> int:
    """Nodes of the product: s_1 + s_1 s_2 + ..., without building it."""
    return sum(accumulate(sizes, mul))


def cartesian(sizes: Sequence[int]) -> TreeShape:
    """Every node of depth d - 1 has the candidates of ranks 0 .. sizes[d - 1] - 1."""
    parents: list[int] = []
    ranks: list[int] = []
    level = [-1]
    for size in sizes:
        first = len(parents)
        parents += [parent for parent in level for _ in range(size)]
        ranks += list(range(size)) * len(level)
        level = list(range(first, len(parents)))
    return TreeShape(tuple(parents), tuple(ranks))
