"""Weights that nobody trained."""

from __future__ import annotations

from collections.abc import Iterator

from specbench.measure.guards.guard import Around, Guard


def weight_guards(around: Around) -> Iterator[Guard]:
    """Random weights have the times of their shape and nothing else."""
    if around.random_weights:
        yield Guard(
            "random_weights",
            "the target's weights are random: text and acceptance mean nothing",
            "quote times alone, with the acceptance that was set (rule synthetic)",
        )
