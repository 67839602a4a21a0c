"""How much of what memory allows a run reached."""

from __future__ import annotations

from specbench.results.summary import Summary

TITLE = "Share of the limit reached"


def limits(summary: Summary) -> list[str]:
    """Per temperature, concurrency and arm, over all suites; empty where no limit is known."""
    names = {row.suite for row in summary.rows}
    rows = [
        row
        for row in summary.rows
        if "limit_share" in row.figures and (row.suite == "all" or len(names) == 1)
    ]
    known = [row for row in rows if row.figures["limit_share"].value is not None]
    if not known:
        return []
    loaded = any(row.concurrency != 1 for row in known)
    lines = [
        f"T={row.temperature:g} {row.arm}{f' c={row.concurrency}' if loaded else ''}: "
        f"{row.figures['limit_share'].value:.0%}"
        for row in known
    ]
    return [*lines, summary.limit]
