"""Charts of a roofline: the roof with forwards below it, and what speculation brings at most."""

from __future__ import annotations

import numpy as np

from specbench.report.page.chart import COLOURS, INK, Chart, Value, canvas, legend, same_height
from specbench.roofline.bound import Placed
from specbench.roofline.cost import Load
from specbench.roofline.speculation import Drafting, best, steps
from specbench.roofline.study import WIDTHS, Grid

ACCEPTANCES = np.linspace(0.0, 0.98, 50)


def roof_chart(target: Placed, grid: Grid) -> Chart:
    """FLOP/s that a forward can reach, by its FLOP per byte; a point per rows of each request.

    Raises:
        PrerequisiteError: matplotlib is not installed.
    """
    figure, (axes,) = canvas(width=8.0, height=5.0)
    peak, bandwidth = target.device.peaks[target.precision.dtype], target.device.bandwidth
    rows: list[tuple[Value, ...]] = []
    for place, batch in enumerate(grid.batches):
        points = [_point(target, Load(batch, width, grid.contexts[0])) for width in WIDTHS]
        xs, ys = zip(*points, strict=True)
        tint = COLOURS[place % len(COLOURS)]
        axes.plot(xs, ys, "o", color=tint, markersize=4, label=f"batch {batch}")
        rows += [(batch, width, *point) for width, point in zip(WIDTHS, points, strict=True)]
    ridge = peak / bandwidth
    met = [float(row[2]) for row in rows]
    reach = np.geomspace(min(met) / 2, max(20 * ridge, *met), 200)
    axes.plot(reach, np.minimum(peak, reach * bandwidth), color=INK, label="limit")
    axes.axvline(ridge, color=INK, linestyle=":", linewidth=1)
    axes.annotate(f"ridge {ridge:.3g} FLOP/B", (ridge, peak), (4, 4), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte of memory")
    axes.set_ylabel("FLOP/s")
    axes.set_title(f"{target.shape.name} on {target.device.title}, context {grid.contexts[0]}")
    legend(figure)
    says = (
        f"Each point is a forward of {', '.join(map(str, WIDTHS))} rows per request, at its lower "
        "bound. On the slope memory is the limit, and more rows take no more time."
    )
    header = ("batch", "rows per request", "FLOP/B", "FLOP/s")
    return Chart("roofline", "What a forward can reach", says, header, rows, figure)


def _point(target: Placed, load: Load) -> tuple[float, float]:
    timed = target.parts(load)
    flops = sum(one.part.flops for one in timed)
    return flops / sum(one.part.bytes for one in timed), flops / target.seconds(load)


def speedup_chart(target: Placed, drafting: Drafting, grid: Grid, drafted: str) -> Chart:
    """Speed-up at the best K against acceptance, a line per batch, a plot per context.

    Raises:
        PrerequisiteError: matplotlib is not installed.
    """
    contexts = list(grid.contexts)[:3]
    figure, plots = canvas(len(contexts), width=3.6 * len(contexts) + 1, height=4.2)
    rows: list[tuple[Value, ...]] = []
    for axes, context in zip(plots, contexts, strict=True):
        for place, batch in enumerate(grid.batches):
            possible = steps(target, drafting, batch, context, grid.longest)
            chosen = [best(possible, float(acceptance)) for acceptance in ACCEPTANCES]
            tint = COLOURS[place % len(COLOURS)]
            speedups = [one.speedup for one in chosen]
            axes.plot(ACCEPTANCES, speedups, color=tint, label=f"batch {batch}")
            rows += [
                (context, batch, float(acceptance), one.k, one.speedup)
                for acceptance, one in zip(ACCEPTANCES, chosen, strict=True)
            ]
        axes.set_title(f"context {context}")
        axes.set_xlabel("acceptance per drafted token")
    plots[0].set_ylabel("predicted speed-up, x")
    figure.suptitle(f"{target.shape.name} on {target.device.title}, {drafted}", color=INK)
    same_height(plots)
    for axes in plots:
        axes.set_ylim(bottom=1)
    legend(figure)
    says = f"{target.shape.name} on {target.device.title}, {drafted}, the best K of each point."
    header = ("context", "batch", "acceptance", "K", "speed-up")
    return Chart("roofline_speedup", "What speculation can bring", says, header, rows, figure)
