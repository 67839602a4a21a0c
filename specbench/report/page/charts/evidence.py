"""Evidence against an output over the tokens that were seen."""

from __future__ import annotations

import math

import numpy as np

from specbench.core.request import GREEDY_BELOW
from specbench.fidelity.columns import columns, ordered
from specbench.fidelity.eprocess import EProcess
from specbench.report.page.chart import INK, Chart, Value, canvas, colour, known, legend
from specbench.report.page.measured import Measured, place

ALPHA = 1e-3
BLOCKS = 60
"""Points of a curve."""


def evidence(run: Measured) -> Chart | None:
    """The betting score of every arm above temperature 0, in an order fixed before the run."""
    settings = [one for one in run.settings if one[0] >= GREEDY_BELOW]
    if not settings:
        return None
    figure, plots = canvas(len(settings), width=max(6.0, 4.6 * len(settings)))
    rows: list[tuple[Value, ...]] = []
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        for arm in run.arms:
            points = _path(run, arm, temperature, load)
            if points:
                axes.plot(*zip(*points, strict=True), color=colour(run, arm), label=arm)
                tokens, score = points[-1]
                rows.append((f"{temperature:g}", str(load), arm, str(tokens), known(score)))
        axes.axhline(-math.log10(ALPHA), color=INK, linewidth=0.8, linestyle="--")
        axes.set_title(place(temperature, load), color=INK)
        axes.set_xlabel("tokens")
    if not rows:
        return None
    plots[0].set_ylabel("log10 of the evidence")
    legend(figure)
    header = ("temperature", "load", "arm", "tokens", "log10 evidence")
    says = (
        "An e-process that bets on each token against the target's law: it stays near or below 0 "
        f"while the output is the target's, and crosses the dashed line by chance with probability "
        f"{ALPHA:g} at most, however long one watches."
    )
    return Chart("evidence", "Is the output still the target's?", says, header, rows, figure)


def _path(run: Measured, arm: str, temperature: float, load: int) -> list[tuple[int, float]]:
    wanted = arm, temperature, load
    traces = ordered(
        [
            trace
            for trace in run.recorded.traces.values()
            if (trace.arm, trace.key.temperature, trace.concurrency) == wanted
        ]
    )
    process, points, tokens = EProcess(), [], 0
    for block in np.array_split(np.arange(len(traces)), min(BLOCKS, max(1, len(traces)))):
        found = columns([traces[place] for place in block])
        tokens += len(found)
        if len(found):
            process.update(found)
            points.append((tokens, process.log_e / math.log(10)))
    return points
