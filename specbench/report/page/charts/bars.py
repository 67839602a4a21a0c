"""Bars by suite and arm with intervals, one plot per temperature and load."""

from __future__ import annotations

from typing import Any

from specbench.report.page.chart import (
    INK,
    Chart,
    Value,
    canvas,
    colour,
    known,
    legend,
    same_height,
)
from specbench.report.page.measured import Measured, place


def bars(
    run: Measured, arms: list[str], metric: str, title: str, says: str, unit: str, line: float
) -> Chart | None:
    """A chart of one metric; None where no cell has a value.

    Args:
        arms: that are shown.
        unit: of the axis.
        line: where plain is.
    """
    cells = run.cells(metric, "value")
    cells = cells[cells["arm"].isin(arms) & cells["value"].notna()]
    if cells.empty:
        return None
    suites = list(dict.fromkeys(cells["suite"]))
    settings = run.settings
    figure, plots = canvas(len(settings), width=4.6 * len(settings))
    rows: list[tuple[Value, ...]] = []
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        here = cells[(cells["temperature"] == temperature) & (cells["concurrency"] == load)]
        found = {(r["suite"], r["arm"]): r for r in here.to_dict("records")}
        _draw(axes, run, arms, suites, found)
        axes.axhline(line, color=INK, linewidth=0.8)
        axes.set_title(place(temperature, load), color=INK)
        axes.set_ylabel(unit)
        rows += [
            (f"{temperature:g}", str(load), suite, arm, known(one["value"]), *_interval(one))
            for (suite, arm), one in found.items()
        ]
    same_height(plots)
    legend(figure)
    header = ("temperature", "load", "suite", "arm", metric, "low", "high")
    return Chart(metric, title, says, header, rows, figure)


def _interval(one: dict[Any, Any]) -> tuple[Value, Value]:
    return known(one["low"]), known(one["high"])


def _draw(axes: Any, run: Measured, arms: list[str], suites: list[str], found: Any) -> None:
    width = 0.8 / len(arms)
    for number_, arm in enumerate(arms):
        places = [p + (number_ - (len(arms) - 1) / 2) * width for p in range(len(suites))]
        ones = [found.get((suite, arm)) for suite in suites]
        heights = [0.0 if one is None else one["value"] for one in ones]
        axes.bar(places, heights, width * 0.92, color=colour(run, arm), label=arm)
        for x, one in zip(places, ones, strict=True):
            if one is not None and one["low"] == one["low"]:
                axes.plot([x, x], [one["low"], one["high"]], color=INK, linewidth=1)
    axes.set_xticks(range(len(suites)), suites)
