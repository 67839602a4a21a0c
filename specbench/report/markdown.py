"""The summary as Markdown: summary.md of a run folder, and the README's table."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.report.anchors import TITLE as ANCHORS
from specbench.report.anchors import anchors
from specbench.report.cells import (
    Grid,
    first_tokens,
    footnoted,
    grid,
    heading,
    identities,
    loops,
    memory,
    state,
)
from specbench.report.limits import GRAPHS, from_graphs, limits
from specbench.report.limits import TITLE as LIMITS
from specbench.report.predictions import TITLE, predictions
from specbench.report.prices import prices, verdicts
from specbench.report.quality import qualities, signatures
from specbench.results.summary import Summary


def markdown(summary: Summary) -> str:
    """The whole summary."""
    table = grid(summary)
    parts = [f"# {heading(summary)}", state(summary), "", *table_lines(table), ""]
    parts += [*table.remarks, ""] if table.remarks else []
    parts.append(summary.sentence)
    fidelity = prices(summary)
    if fidelity.rows:
        parts += ["", "## Speed and its price at temperature > 0", "", *table_lines(fidelity)]
    parts += _section("Is the output still the target's?", verdicts(summary))
    parts += _section("No price", footnoted(fidelity))
    parts += _section("Quality of answers, paired with plain", qualities(summary))
    parts += _section("Quality was computed by", signatures(summary))
    parts += _section("Not available", footnoted(table))
    parts += _section(ANCHORS, anchors(summary))
    parts += _section(TITLE, predictions(summary))
    parts += _section(LIMITS, limits(summary))
    parts += _section(GRAPHS, from_graphs(summary))
    parts += _section("Greedy outputs that differ from plain's", identities(summary))
    parts += _section("Without looping outputs", loops(summary))
    parts += _section("Warnings", summary.warnings)
    parts += _section("Failed and skipped", summary.failures)
    parts += _section("Time to first token, arm minus plain", first_tokens(summary))
    parts += _section("Memory", memory(summary))
    return "\n".join(parts) + "\n"


def table_lines(table: Grid) -> list[str]:
    """The table alone, one line per row."""
    header = " | ".join(table.header)
    rule = " | ".join("---" for _ in table.header)
    rows = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in table.rows]
    return [f"| {line} |" for line in (header, rule, *rows)]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", *(f"- {line}" for line in lines)] if lines else []
