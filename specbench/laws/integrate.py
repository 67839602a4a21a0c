"""Exact integrals over uniform numbers, without knowing what a sampler does with them.

A sampler's output is a step function of each of its uniform numbers. One axis after the other is
cut into cells: the output is compared along lines through each cell, the other numbers at probes,
and every jump is narrowed down to ``RESOLUTION``. What the cells leave out is measured, not
assumed: random points inside every cell must give what its middle gives, or the cell counts as
``doubt``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from specbench.laws.cells import EDGE, Cells, Judge, cut, evaluate

FULL_CORNERS = 3
"""Numbers up to which every corner is a probe; beyond, one number at a time leaves the crowd."""
CHECKS = 1024
"""Random points that must agree with the middle of their cell, two per cell at least."""
NEGLIGIBLE = 1e-7
"""Doubt that rounding leaves between two jumps of one place in single precision."""
FIRST_PARTS, SECOND_PARTS = 2, 6
"""Parts of a line that are compared first, in both attempts."""
SECOND_PROBES = 32
"""Further probes of the second attempt, made where the first one left doubt."""


@dataclass(frozen=True, slots=True)
class Integral:
    """What a judge says over the whole unit cube.

    Attributes:
        context, code: int64 [m], each context's outputs, repeated codes possible.
        volume: float64 [m].
        doubt: float64 [contexts], volume of each one's cells whose output is not constant.
    """

    context: Tensor
    code: Tensor
    volume: Tensor
    doubt: Tensor


def integrate(judge: Judge, contexts: int, axes: int, seed: int = 0) -> Integral:
    """Integral of a judge over ``axes`` uniform numbers, for contexts 0 .. ``contexts`` - 1.

    ``NoStepFunctionError`` where cells multiply without end.
    """
    generator = np.random.default_rng(seed)
    cells = _cells(
        judge, contexts, [_corners(axes - axis - 1) for axis in range(axes)], FIRST_PARTS
    )
    result = _checked(judge, contexts, cells, generator)
    if float(result.doubt.max()) > NEGLIGIBLE:
        # What the numbers behind an axis can do is known by now: their cells serve as probes.
        places = generator.integers(len(cells.context), size=SECOND_PROBES)
        probes = [
            torch.cat([_corners(axes - axis - 1), cells.middle[places, axis + 1 :]])
            for axis in range(axes)
        ]
        cells = _cells(judge, contexts, probes, SECOND_PARTS)
        result = _checked(judge, contexts, cells, generator)
    return result


def _cells(judge: Judge, contexts: int, probes: Sequence[Tensor], parts: int) -> Cells:
    """The whole cube of every context, cut along one axis after the other."""
    nothing = torch.empty(contexts, 0, dtype=torch.float64)
    cells = Cells(torch.arange(contexts), nothing, nothing)
    for behind in probes:
        cells = cut(judge, cells, behind, parts)
    return cells


def _checked(judge: Judge, contexts: int, cells: Cells, generator: np.random.Generator) -> Integral:
    """The judge's outputs in the cells, and where random points contradict them."""
    code = evaluate(judge, cells.context, cells.middle)
    cell = torch.arange(len(code)).repeat(max(2, CHECKS // len(code)))
    low, high = cells.low[cell], cells.high[cell]
    point = low + torch.from_numpy(generator.uniform(0.01, 0.99, low.shape)) * (high - low)
    wrong = cell[evaluate(judge, cells.context[cell], point) != code[cell]].unique()
    doubt = torch.zeros(contexts, dtype=torch.float64)
    doubt.index_add_(0, cells.context[wrong], cells.volume[wrong])
    return Integral(cells.context, code, cells.volume, doubt)


def _corners(count: int) -> Tensor:
    """Points float64 [P, count] at which the numbers behind an axis are held."""
    low, high = EDGE, 1 - EDGE
    if count <= FULL_CORNERS:
        found = [list(corner) for corner in product((low, high), repeat=count)]
    else:
        found = [[low] * count, [high] * count]
        for i in range(count):
            for alone, rest in ((low, high), (high, low)):
                found.append([alone if i == j else rest for j in range(count)])
    if count:
        found.append([0.5] * count)
    return torch.tensor(found, dtype=torch.float64).view(len(found), count)
