"""The summary for a terminal: a table of at most 120 columns, then what it means."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from specbench.report.anchors import TITLE as ANCHORS
from specbench.report.anchors import anchors
from specbench.report.cells import (
    SPEEDUP,
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
from specbench.results.summary import BROKEN, Summary

WIDTH = 120
NUMERIC = frozenset(
    {"T", "c", "accept length", "accept rate", "TTFT ms", "tok/s", "KL nats", "entropy shift"}
)

HEADERS = {"lossless": "loss-\nless"}


class ConsoleSummary:
    """A rich renderable; colour repeats what words already say."""

    def __init__(self, summary: Summary, path: str) -> None:
        self._summary = summary
        self._path = path

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Heading, table, sentence, notes, path."""
        summary = self._summary
        yield Text(heading(summary), style="bold")
        yield Text(state(summary), style="" if summary.complete else "bold red")
        table = grid(summary)
        yield grid_table(table)
        for line in table.remarks:
            yield Text(line)
        yield Text(summary.sentence, style="bold")
        fidelity = prices(summary)
        if fidelity.rows:
            yield Text("\nspeed and its price at temperature > 0, all suites:")
            yield grid_table(fidelity)
        for title, lines in self._notes():
            if lines:
                yield Text(f"\n{title}")
                for text in lines:
                    yield Text(f"  {text}")
        yield Text(f"\n{self._path}")

    def _notes(self) -> list[tuple[str, Sequence[str]]]:
        summary = self._summary
        footnotes = footnoted(grid(summary))
        unpriced = footnoted(prices(summary))
        return [
            ("not available:", footnotes),
            (f"{ANCHORS.lower()}:", anchors(summary)),
            (f"{TITLE.lower()}:", predictions(summary)),
            (f"{LIMITS.lower()}:", limits(summary)),
            (f"{GRAPHS.lower()}:", from_graphs(summary)),
            ("is the output still the target's?", verdicts(summary)),
            ("no price:", unpriced),
            ("quality of answers, paired with plain:", qualities(summary)),
            ("quality was computed by:", signatures(summary) if qualities(summary) else []),
            ("greedy outputs that differ from plain's:", identities(summary)),
            ("without looping outputs:", loops(summary)),
            ("! warnings:", summary.warnings),
            ("failed and skipped:", summary.failures),
            ("time to first token, arm minus plain:", first_tokens(summary)),
            ("memory:", memory(summary)),
        ]


def grid_table(content: Grid) -> Table:
    """The table of a summary."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in content.header:
        # Words of a header stand below each other: the figures decide how wide a column is.
        table.add_column(
            HEADERS.get(name, name.replace(" ", "\n", 1)),
            justify="right" if name in NUMERIC else "left",
            overflow="fold",
            no_wrap=name in (SPEEDUP, "suite"),
        )
    for index, row in enumerate(content.rows):
        texts = [Text(cell, style=_style(cell)) for cell in row]
        key = 2 if content.header[0] == "suite" else 1
        last = index + 1 == len(content.rows) or content.rows[index + 1][:key] != row[:key]
        table.add_row(*texts, end_section=last)
    return table


def _style(cell: str) -> str:
    if cell.startswith(BROKEN):
        return "bold red"
    return "yellow" if cell.endswith("slower") or cell.startswith("tie ") else ""
