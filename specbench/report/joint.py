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
    for manifest, summary in zip(manifests, summaries, strict=True):
        engine = str(manifest.engine.get("name", "unknown"))
        header, found = summary_rows(summary, notes)
        for row, cells in zip(summary.rows, found, strict=True):
            place = (row.suite, row.temperature, row.concurrency)
            rows.append((place, (*cells[:2], engine, *cells[2:])))
    order = list(dict.fromkeys(place for place, _ in rows))
    rows.sort(key=lambda entry: order.index(entry[0]))
    titles = (*header[:2], "engine", *header[2:])
    return Grid(titles, tuple(cells for _, cells in rows), tuple(notes.notes))


def joint_markdown(joint: Grid) -> str:
    """The table and its footnotes."""
    return "\n".join([*table_lines(joint), "", *(f"- {line}" for line in footnoted(joint))]) + "\n"


class JointTable:
    """A rich renderable of the table."""

    def __init__(self, joint: Grid) -> None:
        self._joint = joint

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, then its footnotes."""
        yield grid_table(self._joint)
        for line in footnoted(self._joint):
            yield Text(line)
