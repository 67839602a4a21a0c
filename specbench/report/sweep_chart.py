"""Tokens/s per user against tokens/s per device: a line over the loads for plain and every K."""

from __future__ import annotations

from specbench.core.arm import PLAIN
from specbench.report.page.chart import COLOURS, INK, Chart, Value, canvas, known, legend
from specbench.results.sweep.summary import Standing, SweepSummary


def sweep_chart(summary: SweepSummary) -> Chart:
    """The chart of a sweep: up and to the right is better for everybody.

    Raises:
        PrerequisiteError: matplotlib is not installed.
    """
    lines: dict[str, list[Standing]] = {}
    for one in summary.standings:
        if _point(one) is not None:
            lines.setdefault(one.name, []).append(one)
    figure, (axes,) = canvas(width=8.0, height=5.0)
    chosen = {(one.load, one.name): one for one in summary.recommended}
    for place, (name, members) in enumerate(lines.items()):
        plain = name == PLAIN
        tint = INK if plain else COLOURS[place % len(COLOURS)]
        points = [point for one in members if (point := _point(one)) is not None]
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, "--" if plain else "-", marker="o", color=tint, label=name, markersize=4)
        for one, point in zip(members, points, strict=True):
            text = f"load {one.load}" if plain else f"{one.load}"
            axes.annotate(text, point, (6, -10), textcoords="offset points", fontsize=7, color=tint)
            if (one.load, one.name) in chosen:
                axes.plot(*point, marker="*", markersize=14, color=tint, linestyle="")
    _mark(axes, summary, lines.get(PLAIN, []))
    axes.set_xlabel("tokens/s per user (decode)")
    axes.set_ylabel("tokens/s per device")
    axes.set_xlim(left=0)
    # Room for what is written above the highest point.
    axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
    axes.set_title(_title(summary), color=INK)
    legend(figure)
    header = ("load", "candidate", "tokens/s user", "tokens/s device", "prompts", "recommended")
    rows: list[tuple[Value, ...]] = [
        (
            one.load,
            one.name,
            known(one.figures["tokens_per_s_user"].value),
            known(one.figures["tokens_per_s_device"].value),
            one.prompts,
            "yes" if (one.load, one.name) in chosen else "",
        )
        for members in lines.values()
        for one in members
    ]
    says = (
        "Each point is one load, of the last dev run that measured the candidate; a line joins the "
        "loads. The star is what is recommended, the circle where speculation stops paying."
    )
    return Chart(
        "throughput", "Speed of a user against speed of the device", says, header, rows, figure
    )


def _mark(axes: object, summary: SweepSummary, plain: list[Standing]) -> None:
    """A circle around plain at the load from which on no K was shown to pay."""
    for one in plain:
        point = _point(one)
        if one.load == summary.stops and point is not None:
            axes.plot(  # type: ignore[attr-defined]
                *point, marker="o", markersize=20, fillstyle="none", color=COLOURS[4], linestyle=""
            )
            axes.annotate(  # type: ignore[attr-defined]
                f"from load {one.load} on speculation does not pay",
                point,
                (0, 16),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=COLOURS[4],
            )


def _point(one: Standing) -> tuple[float, float] | None:
    names = ("tokens_per_s_user", "tokens_per_s_device")
    values = [one.figures[name].value for name in names if name in one.figures]
    user, device = [*values, None, None][:2]
    return None if user is None or device is None else (user, device)


def _title(summary: SweepSummary) -> str:
    return f"{summary.title}: {summary.target}, T = {summary.temperature:g}"
