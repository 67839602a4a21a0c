"""Speed-up against the longest draft, where a run has one drafter at several K."""

from __future__ import annotations

from specbench.core.arm import PLAIN
from specbench.core.manifest import canonical
from specbench.report.page.chart import COLOURS, INK, Chart, Value, canvas, known, legend
from specbench.report.page.measured import Measured, place


def best_k(run: Measured) -> Chart | None:
    """One line per drafter that was measured at two K or more; the best K is marked."""
    families: dict[str, list[tuple[int, str]]] = {}
    for arm in run.manifest.arms:
        if arm.name != PLAIN:
            same = canonical([arm.drafter, arm.rule_label, arm.engine, dict(arm.drafter_options)])
            families.setdefault(same, []).append((arm.k, arm.name))
    several = [sorted(members) for members in families.values() if len(members) > 1]
    if not several:
        return None
    cells = run.cells("speedup", "value")
    cells = cells[cells["suite"] == run.whole]
    settings = run.settings
    figure, plots = canvas(len(settings), width=4.6 * len(settings))
    rows: list[tuple[Value, ...]] = []
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        here = cells[(cells["temperature"] == temperature) & (cells["concurrency"] == load)]
        values = dict(zip(here["arm"], here["value"], strict=True))
        for number_, members in enumerate(several):
            points = [(k, values[arm]) for k, arm in members if values.get(arm) is not None]
            drafter = run.manifest.arm(members[0][1]).drafter
            tint = COLOURS[number_ % len(COLOURS)]
            axes.plot(*zip(*points, strict=True), marker="o", color=tint, label=drafter)
            best = max(points, key=lambda point: point[1])
            axes.plot(*best, marker="*", markersize=14, color=tint)
            rows += [
                (f"{temperature:g}", str(load), drafter, str(k), known(value), _best(k, best[0]))
                for k, value in points
            ]
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set_title(place(temperature, load), color=INK)
        axes.set_xlabel("K")
    plots[0].set_ylabel("times plain")
    legend(figure)
    header = ("temperature", "load", "drafter", "K", "speed-up", "best")
    says = "Measured speed-up over all suites by the longest draft; the star is the best K."
    return Chart("best_k", "Speed-up against K", says, header, rows, figure)


def _best(k: int, best: int) -> str:
    return "best" if k == best else ""
