"""A chart: a picture in the page's own colours, what it shows, and the table behind it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from specbench.errors import PrerequisiteError
from specbench.report.page.measured import Measured
from specbench.results.items import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#123457"
"""Colour of lines and letters in a picture; the page puts its own in its place."""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c8c00", "#7a4fbf")
"""Okabe and Ito's, told apart by most people; each arm has one in all charts of a run."""


Value = str | int | float


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart of a page.

    Attributes:
        name: of files and anchors.
        title, says: what it shows.
        header, rows: the table behind it; numbers are not rounded.
        figure: the picture; None where the table is the picture.
        shades: by row and column of the table, a colour behind a cell, where it is a map.
    """

    name: str
    title: str
    says: str
    header: Sequence[str]
    rows: Sequence[Sequence[Value]]
    figure: Figure | None = None
    shades: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def csv(self) -> str:
        """The table as a CSV document."""
        return csv_text(self.header, [[str(cell) for cell in row] for row in self.rows])

    @property
    def shown(self) -> list[list[str]]:
        """The rows as the page shows them: three digits of what is measured."""
        return [
            [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
            for row in self.rows
        ]

    @property
    def download(self) -> str:
        """The table as an address that a browser saves."""
        return f"data:text/csv;base64,{base64.b64encode(self.csv.encode()).decode()}"

    def svg(self, prefix: str) -> str:
        """The picture, in ``currentColor``; empty where there is none.

        Args:
            prefix: of its ids, which must not clash with those of other pictures of a page.
        """
        if self.figure is None:
            return ""
        stream = io.StringIO()
        self.figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None})
        text = stream.getvalue()
        text = text[text.index("<svg") :].replace(INK, "currentColor")
        # Sized by the page.
        text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
        text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r"<svg \1", text, count=1)
        text = re.sub(r'(id="|href="#|url\(#)([\w-]+)', rf"\1{prefix}-{self.name}-\2", text)
        label = self.title.replace('"', "'")
        return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


Maker = Callable[[Measured], Chart | None]
"""Makes a chart; None where a run has nothing to show there."""


def canvas(columns: int = 1, width: float = 9.0, height: float = 3.4) -> tuple[Figure, list[Any]]:
    """An empty picture with plots side by side.

    Raises:
        PrerequisiteError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PrerequisiteError(
            "a report draws with matplotlib", "type: pip install 'specbench-llm[report]'"
        ) from error
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "specbench"
    figure = Figure(figsize=(width, height), layout="constrained")
    plots = [figure.add_subplot(1, columns, place + 1) for place in range(columns)]
    for axes in plots:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for spine in axes.spines.values():
            spine.set_color(INK)
        axes.tick_params(colors=INK, labelsize=9)
        axes.title.set_color(INK)
        axes.title.set_fontsize(10)
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(INK)
            label.set_fontsize(9)
        axes.grid(alpha=0.25, color=INK, linewidth=0.5)
        axes.set_axisbelow(True)
    return figure, plots


def legend(figure: Figure) -> None:
    """One legend below all plots, in the page's colours."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    if found:
        figure.legend(
            [*found.values()],
            [*found],
            loc="outside lower center",
            ncols=min(8, len(found)),
            fontsize=8,
            frameon=False,
            labelcolor=INK,
        )


def same_height(plots: Sequence[Any]) -> None:
    """Give plots that stand side by side one scale."""
    highest = max(axes.get_ylim()[1] for axes in plots)
    for axes in plots:
        axes.set_ylim(top=highest)


def colour(run: Measured, arm: str) -> str:
    """The colour of an arm."""
    return COLOURS[run.arms.index(arm) % len(COLOURS)]


def known(value: float | None) -> Value:
    """A value of a table; empty where there is none."""
    return "" if value is None or value != value else float(value)
