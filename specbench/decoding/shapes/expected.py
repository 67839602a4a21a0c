"""How many tokens a shape gets accepted, from how often the candidate of each rank is accepted.

One candidate of a position is accepted at most, so the chance to accept a node is the product of
the accuracies along its path, and the expected number of accepted tokens is the sum over nodes.
Exact where accuracies do not depend on the tokens before (Cai et al. 2401.10774, section 2.3.3;
Chen et al. 2402.12374, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.decoding.shapes.shape import TreeShape

_SLACK = 1e-6
"""Accuracies of one position are shares of a count; their sum may exceed 1 by rounding."""


@dataclass(frozen=True, slots=True)
class Accuracies:
    """Chance that the candidate of a rank is accepted, given that its parent was.

    Attributes:
        rows: by depth, the first for children of the root, then by rank.
        endless: the last row holds for every depth behind it.
    """

    rows: tuple[tuple[float, ...], ...]
    endless: bool

    @classmethod
    def of(cls, values: Sequence[object]) -> Accuracies:
        """From a list by rank, the same at every depth, or one list by rank per depth.

        Raises:
            ValueError: anything else, a number outside [0, 1], or a position whose sum exceeds 1.
        """
        nested = [value for value in values if isinstance(value, list | tuple)]
        if not values or len(nested) not in (0, len(values)):
            raise ValueError("neither a list of numbers nor a list of such lists")
        rows = [_shares(row, depth) for depth, row in enumerate(nested or [values], 1)]
        return cls(tuple(rows), not nested)

    def at(self, depth: int) -> tuple[float, ...]:
        """Accuracies by rank of nodes at a depth, 1 for children of the root."""
        if depth <= len(self.rows):
            return self.rows[depth - 1]
        return self.rows[-1] if self.endless else ()

    def of_node(self, depth: int, rank: int) -> float:
        """One accuracy; 0 where none was given."""
        row = self.at(depth)
        return row[rank] if rank < len(row) else 0.0


def expected(shape: TreeShape, accuracies: Accuracies) -> float:
    """Expected accepted tokens of a shape; the token after them is not counted."""
    chances: list[float] = []
    for parent, rank, depth in zip(shape.parents, shape.ranks, shape.depths, strict=True):
        above = chances[parent] if parent >= 0 else 1.0
        chances.append(above * accuracies.of_node(depth, rank))
    return sum(chances)


def _shares(row: Sequence[object], depth: int) -> tuple[float, ...]:
    """A row of accuracies; ValueError where it cannot be one."""
    shares = [
        float(value)
        for value in row
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    ]
    if not row or len(shares) != len(row):
        raise ValueError(f"depth {depth}: {list(row)} is no list of numbers in [0, 1]")
    if sum(shares) > 1 + _SLACK:
        raise ValueError(
            f"depth {depth}: the sum over ranks is {sum(shares):.6g}, but one candidate of a "
            "position is accepted at most"
        )
    return tuple(shares)
