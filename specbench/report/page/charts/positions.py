"""How often a drafted token is accepted, by its position in the draft."""

from __future__ import annotations

from specbench.report.page.chart import INK, Chart, Value, canvas, colour, known, legend
from specbench.report.page.measured import Measured, place


def positions(run: Measured) -> Chart | None:
    """Accepted of the steps that reached a position, over all suites."""
    rows = run.table
    rows = rows[
        (rows["metric"] == "accept_pos")
        & rows["stat"].str.startswith("conditional_")
        & (rows["suite"] == run.whole)
        & (rows["category"] == "")
        & rows["value"].notna()
    ]
    if rows.empty:
        return None
    settings = run.settings
    figure, plots = canvas(len(settings), width=4.6 * len(settings))
    shown: list[tuple[Value, ...]] = []
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        here = rows[(rows["temperature"] == temperature) & (rows["concurrency"] == load)]
        for arm in run.speculative:
            own = here[here["arm"] == arm]
            points = sorted(
                (int(stat.removeprefix("conditional_")), value, n)
                for stat, value, n in zip(own["stat"], own["value"], own["n"], strict=True)
            )
            axes.plot(
                [p for p, _, _ in points],
                [value for _, value, _ in points],
                marker="o",
                markersize=4,
                color=colour(run, arm),
                label=arm,
            )
            shown += [
                (f"{temperature:g}", str(load), arm, str(p), known(value), int(n))
                for p, value, n in points
            ]
        axes.set_ylim(0, 1.02)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_title(place(temperature, load), color=INK)
        axes.set_xlabel("position in the draft")
    plots[0].set_ylabel("accepted of those that reached it")
    legend(figure)
    header = ("temperature", "load", "arm", "position", "accepted", "steps")
    return Chart(
        "positions",
        "Acceptance by position",
        "Share of the steps that came to a position of the draft and accepted there, all suites.",
        header,
        shown,
        figure,
    )
