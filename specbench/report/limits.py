"""How much of what memory allows a run reached, and how many of its steps ran from graphs."""

from __future__ import annotations

from specbench.results.summary import Summary

TITLE = "Share of the limit reached"
GRAPHS = "Decode steps that ran from captured graphs"


def limits(summary: Summary) -> list[str]:
    """Per temperature, concurrency and arm, over all suites; empty where no limit is known."""
    lines = _shares(summary, "limit_share")
    return [*lines, summary.limit] if lines else []


def from_graphs(summary: Summary) -> list[str]:
    """The same of steps that were replayed; empty where none was."""
    return _shares(summary, "graph_share")


def _shares(summary: Summary, figure: str) -> list[str]:
    """A line per row over all suites in which a share has a value."""
    names = {row.suite for row in summary.rows}
    known = [
        row
        for row in summary.rows
        if figure in row.figures
        and row.figures[figure].value is not None
        and (row.suite == "all" or len(names) == 1)
    ]
    loaded = any(row.concurrency != 1 for row in known)
    return [
        f"T={row.temperature:g} {row.arm}{f' c={row.concurrency}' if loaded else ''}: "
        f"{row.figures[figure].value:.0%}"
        for row in known
    ]
