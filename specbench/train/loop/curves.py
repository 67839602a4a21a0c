"""Loss and acceptance over the steps of a training: ``curves.csv`` and a picture of it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.train.capture.disk import writing

Row = dict[str, float | int | str]
KEPT = "it goes on from the last checkpoint"


class Curves:
    """Rows of figures by step, kept on disk.

    Args:
        path: of the CSV file; rows that it holds up to ``step`` are kept.
        step: where the training goes on.

    Raises:
        PrerequisiteError: a file that holds something else.
    """

    def __init__(self, path: Path, step: int) -> None:
        self._path = path
        self.rows: list[Row] = [row for row in read_rows(path) if _step(row) <= step]

    def add(self, row: Mapping[str, float | int | str]) -> None:
        """One more row; it has a ``step``."""
        self.rows.append(dict(row))

    def write(self) -> None:
        """Write all rows; columns in the order in which they first occurred.

        Raises:
            SpecbenchError: the disk is full; the former file is still there.
        """
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        lines = [",".join(columns)]
        lines += [",".join(_cell(row.get(name, "")) for name in columns) for row in self.rows]
        with writing(self._path, KEPT) as part:
            part.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _cell(value: float | int | str) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _step(row: Row) -> int:
    return int(row["step"])


def read_rows(path: Path) -> list[Row]:
    """Rows of a curves file; none where there is no file. PrerequisiteError: something else."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [
            {name: _value(text) for name, text in row.items() if text not in (None, "")}
            for row in csv.DictReader(stream)
        ]
    if not all(isinstance(row.get("step"), int) for row in rows):
        raise PrerequisiteError(f"{path} holds no curves of a training", "remove it")
    return rows


def _value(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def to_look_at(picture: Path, table: Path) -> Path:
    """The picture, or the table where none could be drawn."""
    return picture if picture.is_file() else table


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Three plots over steps: loss, acceptance by depth, accept length on held-out answers.

    Raises:
        PrerequisiteError: matplotlib is not installed.
        SpecbenchError: the disk is full.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PrerequisiteError(
            f"{path.name} needs matplotlib", "type: pip install 'specbench-llm[report]'"
        ) from error
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    plots = figure.subplots(1, 3)
    found = list(dict.fromkeys(name for row in rows for name in row))
    for axes, beginning, what, least in (
        (plots[0], "loss", "loss", 0.0),
        (plots[1], "alpha", "chance that a draw is accepted, by depth", 0.0),
        (plots[2], "accept_length", "accept length on held-out answers", 1.0),
    ):
        _plot(axes, rows, [name for name in found if name.startswith(beginning)], what, least)
    figure.suptitle(title)
    with writing(path, KEPT) as part:
        figure.savefig(part, format="png", dpi=120)


def _plot(axes: Any, rows: Sequence[Row], names: Sequence[str], title: str, least: float) -> None:
    for name in names:
        points = [(row["step"], row[name]) for row in rows if name in row]
        marked = "o" if len(points) < 50 else ""
        axes.plot(*zip(*points, strict=True), label=_label(name), marker=marked, markersize=3)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("step")
    axes.set_ylim(bottom=least)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    if names:
        axes.legend(fontsize=8)


def _label(name: str) -> str:
    """A column in words: ``alpha_2`` and ``loss_2`` are depth 2, ``accept_length_t0.7`` T = 0.7."""
    kind, _, depth = name.partition("_")
    if kind in ("alpha", "loss") and depth:
        return f"depth {depth}"
    if name.startswith("accept_length_t"):
        return f"T = {name.removeprefix('accept_length_t')}"
    return {"accept_length": "mean over T", "loss": "weighted sum"}.get(name, name)
