"""Drafters that carry state from one request to the next."""

from __future__ import annotations

from collections.abc import Iterator

from specbench.measure.guards.guard import Around, Guard


def state_guards(around: Around) -> Iterator[Guard]:
    """Figures of such a drafter depend on which prompts came before, and in which order."""
    if around.stateful:
        yield Guard(
            "stateful",
            "its drafter learns from earlier answers of the run, so acceptance rises along it and "
            "depends on the order of the prompts",
            "compare runs of the same prompts in the same order (seed), or use a scope of one "
            "request",
        )
