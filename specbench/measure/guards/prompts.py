"""Prompts on which acceptance says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specbench.measure.guards.guard import Guard


def prompt_guards(statistics: Mapping[str, object]) -> Iterator[Guard]:
    """What the statistics of a suite's prompts warn of (case D15).

    Args:
        statistics: of the prompts that were chosen, as the manifest holds them
            (``suites.statistics``); empty where a run has none.
    """
    warnings = statistics.get("warnings")
    for text in warnings if isinstance(warnings, list | tuple) else ():
        yield Guard(
            "degenerate_prompts",
            str(text),
            "use real text; `specbench suites stats` shows the suite",
        )
