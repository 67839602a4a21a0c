"""Cells of constant output in the cube of uniform numbers, cut along one axis at a time.

Along lines through each cell, with the numbers behind the axis held at probes, the output is
compared and every jump is narrowed down to ``RESOLUTION``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Judge = Callable[[Tensor, Tensor], Tensor]
"""(context int64 [n], points float64 [n, D]) -> code of the output int64 [n]."""

RESOLUTION = 2.0**-28
"""Uncertainty of a jump's place."""
EDGE = 2.0**-20
"""First and last point of a line lie this far inside; jumps beyond them are not looked for."""
WAYS = 4
"""Parts into which the interval of a jump is cut again: few calls, and few points per jump."""
MOST_LINES = 200_000
"""Jumps that are followed at once; the step functions of small tables have far fewer."""
CHUNK = 1 << 16
"""Points per call of a judge."""


class NoStepFunctionError(ValueError):
    """An output that jumps everywhere."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Boxes of constant output: context int64 [m], low and high float64 [m, D]."""

    context: Tensor
    low: Tensor
    high: Tensor

    @property
    def middle(self) -> Tensor:
        """float64 [m, D]."""
        return (self.low + self.high) / 2

    @property
    def volume(self) -> Tensor:
        """float64 [m]."""
        return (self.high - self.low).prod(1)


def evaluate(judge: Judge, context: Tensor, points: Tensor) -> Tensor:
    """The judge's codes int64 [n], asked in chunks; never asked for nothing."""
    if not len(context):
        return context
    parts = zip(context.split(CHUNK), points.split(CHUNK), strict=True)
    return torch.cat([judge(c, p) for c, p in parts])


@dataclass(frozen=True, slots=True)
class _Lines:
    """Points along one axis, inside cells, with the numbers behind it at probes."""

    judge: Judge
    cells: Cells
    probes: Tensor

    def codes(self, cell: Tensor, probe: Tensor, values: Tensor) -> Tensor:
        """The output int64 [n, m] at values [n, m] on n lines."""
        shape = values.shape
        cell, probe = cell.repeat_interleave(shape[1]), probe.repeat_interleave(shape[1])
        points = [self.cells.middle[cell], values.reshape(-1, 1), self.probes[probe]]
        return evaluate(self.judge, self.cells.context[cell], torch.cat(points, 1)).view(shape)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Intervals of lines whose ends differ: cell, probe, low [n] and the ends' codes [n, 2]."""

    cell: Tensor
    probe: Tensor
    low: Tensor
    ends: Tensor

    def part(self, places: Tensor) -> _Steps:
        return _Steps(self.cell[places], self.probe[places], self.low[places], self.ends[places])

    def narrowed(self, lines: _Lines, width: float, ways: int) -> _Steps:
        """The same in parts of ``width / ways``, where those differ at their ends."""
        inner = self.low[:, None] + width / ways * torch.arange(1, ways)
        between = lines.codes(self.cell, self.probe, inner)
        seen = torch.cat([self.ends[:, :1], between, self.ends[:, 1:]], 1)
        line, place = (seen[:, :-1] != seen[:, 1:]).nonzero(as_tuple=True)
        if len(line) > MOST_LINES:
            raise NoStepFunctionError("the tokens are no step function of the uniform numbers")
        ends = torch.stack([seen[line, place], seen[line, place + 1]], 1)
        low = self.low[line] + place * width / ways
        return _Steps(self.cell[line], self.probe[line], low, ends)


def cut(judge: Judge, cells: Cells, probes: Tensor, parts: int) -> Cells:
    """The cells, cut along one more axis wherever the output jumps on any of their lines.

    Args:
        probes: float64 [P, D'] where the numbers behind the axis are held.
        parts: intervals of a line that are compared first; a jump and its return within one of
            them are not seen.
    """
    lines = _Lines(judge, cells, probes)
    grid = torch.cartesian_prod(torch.arange(len(cells.context)), torch.arange(len(probes)))
    low = torch.full((len(grid),), EDGE, dtype=torch.float64)
    width = 1 - 2 * EDGE
    ends = lines.codes(grid[:, 0], grid[:, 1], torch.stack([low, low + width], 1))
    steps = _Steps(grid[:, 0], grid[:, 1], low, ends).narrowed(lines, width, parts)
    width /= parts
    # Lines of a cell with the same codes at the same place need only one of them.
    place = (steps.low / width).round().long()
    steps = steps.part(_distinct(torch.stack([steps.cell, place, *steps.ends.T], 1)))
    while width > RESOLUTION and len(steps.low):
        steps = steps.narrowed(lines, width, WAYS)
        width /= WAYS
    return _divided(cells, steps.cell, steps.low + width / 2)


def _distinct(table: Tensor) -> Tensor:
    """Places of the first row of each kind."""
    _, kind = table.unique(dim=0, return_inverse=True)
    kinds = int(kind.max()) + 1 if len(kind) else 0
    places = torch.arange(len(table))
    return torch.zeros(kinds, dtype=torch.int64).scatter_reduce(
        0, kind, places, "amin", include_self=False
    )


def _divided(cells: Cells, at: Tensor, jump: Tensor) -> Cells:
    """The cells with borders 0, their jumps, and 1 along the new axis."""
    count = len(cells.context)
    owner = torch.cat([torch.arange(count), at])
    border = torch.cat([torch.zeros(count, dtype=torch.float64), jump])
    # Owners lie 2 apart, so that one sort orders by cell and then by border.
    order = (2.0 * owner + border).argsort()
    owner, border = owner[order], border[order]
    near = (owner[1:] == owner[:-1]) & (border[1:] - border[:-1] < 4 * RESOLUTION)
    kept = torch.cat([torch.ones(1, dtype=torch.bool), ~near])
    owner, border = owner[kept], border[kept]
    last = torch.cat([owner[1:] != owner[:-1], torch.ones(1, dtype=torch.bool)])
    end = torch.where(last, 1.0, border.roll(-1))
    return Cells(
        cells.context[owner],
        torch.cat([cells.low[owner], border[:, None]], 1),
        torch.cat([cells.high[owner], end[:, None]], 1),
    )
