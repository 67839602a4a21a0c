"""Prompts on which acceptance says nothing."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.measure.guards.guard import Guard

FEWEST_DISTINCT = 0.01
"""Distinct over all prompt tokens; suites of real text stay well above it."""


def prompt_guards(prompts: Sequence[Sequence[int]]) -> list[Guard]:
    """Filler repeated over and over is drafted better than any real text (case D15).

    Args:
        prompts: token ids of every prompt of a suite.
    """
    total = sum(map(len, prompts))
    distinct = len({token for prompt in prompts for token in prompt})
    if not total or distinct / total >= FEWEST_DISTINCT:
        return []
    return [
        Guard(
            "repetitive_prompts",
            f"{distinct} distinct tokens in {total} prompt tokens ({distinct / total:.4f})",
            "use real text; acceptance on filler says nothing about it",
        )
    ]
