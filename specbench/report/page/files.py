"""Charts as files: PNG and SVG for papers and slides, CSV for everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from specbench.report.page.chart import INK, Chart

BLACK = "#000000"


def write_charts(charts: Sequence[Chart], folder: Path) -> Iterator[Path]:
    """Write every chart; yields the files as they are written."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        table = folder / f"{chart.name}.csv"
        table.write_text(chart.csv, "utf-8")
        yield table
        if chart.figure is None:
            continue
        picture, drawing = folder / f"{chart.name}.png", folder / f"{chart.name}.svg"
        chart.figure.savefig(picture, dpi=150, facecolor="white")
        yield picture
        chart.figure.savefig(drawing, format="svg", facecolor="white", metadata={"Date": None})
        drawing.write_text(drawing.read_text("utf-8").replace(INK, BLACK), "utf-8")
        yield drawing
