"""Speed that cannot be, outputs of unequal length, and figures that do not say what they seem."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.measure.guards.guard import Cell, Guard
from specbench.metrics.degenerate import CELL_LIMIT
from specbench.metrics.timeline import output_tokens
from specbench.metrics.units import Pair

SPAN_COVERAGE = 0.98
NOISE = 1.1
"""By how much the point of a few requests may lie above the bound where there is no interval."""


def speed_guards(arm: Sequence[Trace], table: Cell) -> Iterator[Guard]:
    """A step costs at least a plain step, so time cannot shrink by more than the accept length.

    Noise may lift the point above it, hence the lower bound decides where there is an interval,
    and ``NOISE`` where there is none.
    Only for requests that ran alone in a closed loop: elsewhere they wait for each other.
    """
    speedup = table["speedup"]["value"]
    length = table["accept_length"]["value"]
    waited = any(trace.concurrency != 1 or trace.sent_ns is not None for trace in arm)
    if not (speedup.known and length.known) or waited:
        return
    point, low = speedup.number(), speedup.low
    floor = point / NOISE if low is None else min(low, point)
    if floor > length.number():
        yield Guard(
            "speedup_above_accept_length",
            f"speedup {point:.3f} exceeds accept length {length.number():.3f}",
            "look for a slower plain arm: no graphs or compilation, a cold cache, another build",
        )


def length_guards(joined: Sequence[Pair]) -> Iterator[Guard]:
    """Greedy outputs of one prompt have one length, however they were decoded."""
    greedy = [pair for pair in joined if pair.arm.key.temperature < GREEDY_BELOW]
    differing = [pair for pair in greedy if output_tokens(pair.arm) != output_tokens(pair.plain)]
    if differing:
        first = differing[0]
        yield Guard(
            "output_lengths_differ",
            f"output lengths differ on {len(differing)} of {len(greedy)} greedy requests, first "
            f"{first.arm.key.item}: {output_tokens(first.arm)} against plain's "
            f"{output_tokens(first.plain)}",
            "look at the fidelity column: a tie, a missed stop or a second token counter",
        )


def table_guards(table: Cell) -> Iterator[Guard]:
    """Outputs that loop, and phases that leave time unexplained."""
    share = table["degenerate_share"]["value"]
    if share.known and share.number() > CELL_LIMIT:
        yield Guard(
            "degenerate",
            f"{share.number():.0%} of plain's outputs repeat themselves",
            "read the figures on non-degenerate items; use other prompts or a larger target",
        )
    covered = table["span_coverage"]["value"]
    if covered.known and covered.number() < SPAN_COVERAGE:
        yield Guard(
            "time_unattributed",
            f"spans cover {covered.number():.1%} of the ticks, {SPAN_COVERAGE:.0%} are needed",
            "do not read the phases; look for work between the spans",
        )
