"""One table over runs of the same experiment on several engines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from specbench.core.manifest import Manifest
from specbench.report.cells import Footnotes, Grid, footnoted, summary_rows
from specbench.report.console import grid_table
from specbench.report.markdown import table_lines
from specbench.results.summary import Summary


def joint_grid(manifests: Sequence[Manifest], summaries: Sequence[Summary]) -> Grid:
    """The rows of all runs, those of one cell below each other, with their engine.

    Each speed-up is against the plain arm of its own engine.
    """
    notes = Footnotes()
    rows: list[tuple[tuple[str, float, int], tuple[str, ...]]] = []
    header: tuple[str, ...] = ()
    remarks: list[str] = []
    for manifest, summary in zip(manifests, summaries, strict=True):
        engine = str(manifest.engine.get("name", "unknown"))
        header, found = summary_rows(summary, notes)
        remarks += [f"{engine}: {line}" for line in summary.acceptance]
        for row, cells in zip(summary.rows, found, strict=True):
            place = (row.suite, row.temperature, row.concurrency)
            rows.append((place, (*cells[:2], engine, *cells[2:])))
    order = list(dict.fromkeys(place for place, _ in rows))
    rows.sort(key=lambda entry: order.index(entry[0]))
    titles = (*header[:2], "engine", *header[2:])
    loaded = any(concurrency != 1 for (_, _, concurrency), _ in rows)
    kept = [place for place, title in enumerate(titles) if title != "c" or loaded]
    return Grid(
        tuple(titles[place] for place in kept),
        tuple(tuple(cells[place] for place in kept) for _, cells in rows),
        tuple(notes.notes),
        tuple(dict.fromkeys(remarks)),
    )


def joint_markdown(joint: Grid) -> str:
    """The table, its footnotes and remarks."""
    below = [f"- {line}" for line in (*footnoted(joint), *joint.remarks)]
    return "\n".join([*table_lines(joint), "", *below]) + "\n"


JOINT_WIDTH = 150
"""Columns off a terminal: names of engines need some more than a table of one run."""


class JointTable:
    """A rich renderable of the table."""

    def __init__(self, joint: Grid) -> None:
        self._joint = joint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, then its footnotes and remarks."""
        yield grid_table(self._joint)
        for line in (*footnoted(self._joint), *self._joint.remarks):
            yield Text(line)
