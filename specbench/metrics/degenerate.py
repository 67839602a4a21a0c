"""Looping outputs. Small models repeat themselves under greedy decoding, and loops flatter every
drafter, so figures are given with and without the prompts on which plain loops (METRICS, guards).
"""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.request import RequestKey
from specbench.core.trace import Trace
from specbench.metrics.timeline import finished
from specbench.stats.proportion import wilson

GRAM = 8
ITEM_LIMIT = 0.20
"""An output is degenerate above this share of repeated tokens."""
CELL_LIMIT = 0.30
"""A cell is marked above this share of degenerate outputs."""


def repeated_share(ids: Sequence[int]) -> float:
    """Share of tokens that lie in an 8-gram which occurred earlier in the same output.

    The first occurrence of an 8-gram does not cover its tokens, every later one does;
    occurrences may overlap. 0 for outputs of 8 tokens or fewer.
    """
    seen: set[tuple[int, ...]] = set()
    covered = covered_to = 0
    for start in range(len(ids) - GRAM + 1):
        gram = tuple(ids[start : start + GRAM])
        if gram in seen:
            covered += start + GRAM - max(start, covered_to)
            covered_to = start + GRAM
        seen.add(gram)
    return covered / len(ids) if ids else 0.0


def is_degenerate(trace: Trace) -> bool:
    """Whether more than 20 % of the output's tokens are repeated."""
    return repeated_share(trace.output_ids) > ITEM_LIMIT


def degenerate_share(plain: Sequence[Trace]) -> Quantity:
    """Share of plain's outputs that are degenerate, unit 1."""
    kept = finished(plain)
    if not kept:
        return nothing("no finished request of plain", "1")
    if not any(trace.output_ids for trace in kept):
        return unavailable("the engine does not return token ids", "1")
    return wilson(sum(map(is_degenerate, kept)), len(kept))


def sound_keys(plain: Sequence[Trace]) -> frozenset[RequestKey]:
    """Requests whose plain output is not degenerate."""
    return frozenset(trace.key for trace in finished(plain) if not is_degenerate(trace))
