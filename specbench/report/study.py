"""A study as a table: its runs under each other, and what changes accept length between them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from specbench.core.manifest import UNQUANTISED
from specbench.report.cells import Footnotes, Grid, footnoted, number, speedup
from specbench.report.console import grid_table
from specbench.report.markdown import table_lines
from specbench.results.study import StudyRow, StudySummary
from specbench.results.summary import Figure
from specbench.results.verdict import RUN_WIDE

SPEEDS = (
    "each speed-up is against the plain arm of the same run; speeds of different runs are not "
    "compared"
)


def study_grid(summary: StudySummary, rows: Sequence[StudyRow] | None = None) -> Grid:
    """The rows of all suites together, by setting and arm, the study's values below each other.

    Args:
        rows: other rows than those; their suite is then a column.
    """
    notes = Footnotes()
    shown = [row for row in summary.rows if row.suite == summary.pooled] if rows is None else rows
    order = {value: place for place, value in enumerate(summary.values)}
    arms = list(dict.fromkeys(row.arm for row in shown))
    place = sorted(
        shown,
        key=lambda row: (
            row.suite != summary.pooled,
            row.suite,
            row.temperature,
            row.concurrency,
            arms.index(row.arm),
            order[row.value],
        ),
    )
    suites = len({row.suite for row in shown}) > 1
    loaded = any(row.concurrency != 1 for row in shown)
    header = [
        *(["suite"] if suites else []),
        "T",
        *(["c"] if loaded else []),
        *("arm", summary.key, "accept length [95 %]", f"against {summary.values[0]}"),
        *("alpha", "accept rate", "speed-up [95 %]", "output"),
    ]
    cells = [
        (
            *([row.suite] if suites else []),
            f"{row.temperature:g}",
            *([str(row.concurrency)] if loaded else []),
            *_cells(row, summary, notes),
        )
        for row in place
    ]
    remarks = [*summary.sentences, SPEEDS]
    if summary.assumed:
        remarks.append(f"taken as equal, not known: {', '.join(summary.assumed)}")
    return Grid(tuple(header), tuple(cells), tuple(notes.notes), tuple(remarks))


def _cells(row: StudyRow, summary: StudySummary, notes: Footnotes) -> tuple[str, ...]:
    figures = row.figures
    return (
        f"{row.arm} !" if set(row.guards) - RUN_WIDE else row.arm,
        row.value,
        with_interval(figures["accept_length"], ".2f", notes),
        _difference(row, summary, notes),
        number(figures["alpha"], ".3f", notes),
        number(figures["accept_rate"], ".2f", notes),
        speedup(figures["speedup"], notes),
        row.identity or "-",
    )


def _difference(row: StudyRow, summary: StudySummary, notes: Footnotes) -> str:
    """Against the first value's same arm; nothing where the row is that itself."""
    if row.value == summary.values[0]:
        return ""
    if "difference" not in row.figures:
        return notes.mark("the run of the first value has not begun")
    return with_interval(row.figures["difference"], "+.3f", notes)


def with_interval(figure: Figure, form: str, notes: Footnotes) -> str:
    """A value with its interval in brackets where there is one, or ``n/a`` with its reason."""
    text = number(figure, form, notes)
    if figure.value is None or figure.low is None or figure.high is None:
        return text
    return f"{text} [{figure.low:{form}}, {figure.high:{form}}]"


def study_heading(summary: StudySummary) -> str:
    """Title, key and values in one line."""
    values = ", ".join(summary.values)
    return f"{summary.title}: {summary.key} = {values}, study {summary.study}"


def study_states(summary: StudySummary) -> list[str]:
    """How far each run is, and where it is."""
    lines = []
    for member in summary.members:
        stored = f" ({member.dtype})" if member.dtype else ""
        if member.quant not in ("", UNQUANTISED):
            stored = f" ({member.dtype} with {member.quant} weights)"
        run = f", run {member.run}" if member.run else ""
        lines.append(f"{summary.key} = {member.value}{stored}: {member.state}{run}")
    return lines


def study_warnings(summary: StudySummary) -> list[str]:
    """What to distrust, by run."""
    return [
        f"{member.value}: {warning}" for member in summary.members for warning in member.warnings
    ]


def study_markdown(summary: StudySummary) -> str:
    """The whole study."""
    table = study_grid(summary)
    parts = [f"# {study_heading(summary)}", "", *(f"- {line}" for line in study_states(summary))]
    parts += ["", *table_lines(table), ""]
    parts += [*(f"- {line}" for line in (*table.remarks, *footnoted(table)))]
    others = [row for row in summary.rows if row.suite != summary.pooled]
    if others:
        more = study_grid(summary, others)
        parts += ["", "## By suite", "", *table_lines(more), ""]
        parts += [f"- {line}" for line in footnoted(more)]
    if warnings := study_warnings(summary):
        parts += ["", "## Warnings", "", *(f"- {line}" for line in warnings)]
    return "\n".join(parts) + "\n"


class StudyTable:
    """A rich renderable of a study."""

    def __init__(self, summary: StudySummary, path: str) -> None:
        self._summary = summary
        self._path = path

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Heading, states, table, sentences, warnings, path."""
        summary = self._summary
        yield Text(study_heading(summary), style="bold")
        for line in study_states(summary):
            yield Text(line, style="" if summary.complete else "bold red")
        table = study_grid(summary)
        yield grid_table(table)
        for line in table.remarks:
            yield Text(line, style="bold" if line in summary.sentences else "")
        for line in footnoted(table):
            yield Text(line)
        for index, line in enumerate(study_warnings(summary)):
            yield Text(f"{'' if index else chr(10) + '! warnings:' + chr(10)}  {line}")
        yield Text(f"\n{self._path}")
