"""The figures of one model on one device over batches and contexts: what ``roofline`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.roofline.bound import Placed, Timed, limit, row_budget
from specbench.roofline.cost import Load, padded_rows, touched
from specbench.roofline.memory import Room, Stored, room
from specbench.roofline.speculation import Best, Drafting, Step, best, break_even, steps

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Rows of a forward, of all requests together, whose cost is shown."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is asked.

    Attributes:
        batches, contexts: requests at a time; tokens of each in the cache.
        acceptances: of each drafted token, independent of the others.
        longest: K up to which the best is sought.
        slack: share by which a forward may be slower within the budget of rows.
        usable: share of the memory that weights and KV may take.
    """

    batches: Sequence[int]
    contexts: Sequence[int]
    acceptances: Sequence[float]
    longest: int
    slack: float
    usable: float


@dataclass(frozen=True, slots=True)
class Width:
    """A forward of so many rows.

    Attributes:
        rows: of all requests together.
        padded: rows that its matrix products compute.
        experts: distinct experts of a layer that they meet, expected; None where none are routed.
        cost: in forwards of one row, without attention.
    """

    rows: int
    padded: int
    experts: float | None
    cost: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """One batch and context.

    Attributes:
        seconds: lower bound of the inter-token latency of plain decoding.
        limit: the part that takes longest, and what limits it.
        budget: most rows per request within the slack.
        steps: of K = 1 and more.
        best: per acceptance.
        break_even: acceptance above which some K pays; None where none does.
    """

    batch: int
    context: int
    seconds: float
    limit: str
    budget: int
    steps: Sequence[Step]
    best: Sequence[Best]
    break_even: float | None


def parts(target: Placed, grid: Grid) -> list[Timed]:
    """The parts of plain's forward at the first batch and context."""
    return target.parts(Load(grid.batches[0], 1, grid.contexts[0]))


def widths(target: Placed) -> list[Width]:
    """Cost of more rows. Attention depends on whose rows they are, so that it is left out."""
    routed = [layers.experts for layers in target.shape.layers if layers.experts]
    tile = target.device.rows(target.precision.dtype)
    one = target.products(Load(1, 1, 0))
    return [
        Width(
            rows,
            int(padded_rows(rows, tile)),
            touched(routed[0], rows) if routed else None,
            target.products(Load(rows, 1, 0)) / one,
        )
        for rows in WIDTHS
    ]


def loads(target: Placed, drafting: Drafting, grid: Grid) -> list[Loaded]:
    """Every context and batch."""
    found = []
    for context in grid.contexts:
        for batch in grid.batches:
            one = Load(batch, 1, context)
            possible = steps(target, drafting, batch, context, grid.longest)
            found.append(
                Loaded(
                    batch,
                    context,
                    target.seconds(one),
                    limit(target.parts(one)),
                    row_budget(target, batch, context, grid.slack),
                    possible,
                    [best(possible, acceptance) for acceptance in grid.acceptances],
                    break_even(possible),
                )
            )
    return found


def rooms(target: Placed, draft: Stored | None, grid: Grid) -> dict[int, Room]:
    """Context -> what fits into the device."""
    stored = target.shape, target.precision
    memory = grid.usable * target.device.memory
    return {context: room(stored, draft, memory, context) for context in grid.contexts}
