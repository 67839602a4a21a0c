"""Distributions of latencies: what share of tokens or requests came sooner."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from specbench.core.trace import Trace
from specbench.metrics.timeline import NS_PER_MS, step_arrivals, token_arrivals
from specbench.report.page.chart import INK, Chart, Value, canvas, colour, known, legend
from specbench.report.page.measured import Measured, place

SHARES = (0.5, 0.9, 0.99)
POINTS = 200
"""Points of a curve: as many as can be seen."""


def itl(run: Measured) -> Chart | None:
    """Latency per token: gap over the tokens behind it, once per token."""

    def values(trace: Trace) -> Iterator[float]:
        rows = step_arrivals(trace)
        for (before, _), (after, tokens) in pairwise(rows):
            yield from [(after - before) / NS_PER_MS / tokens] * tokens

    says = (
        "Share of tokens that came at least as soon after the one before: gap between arrivals "
        "over the tokens of the later one. All suites."
    )
    return _curves(run, "itl", "Latency per token (ITL)", says, values, "ms per token")


def ttft(run: Measured) -> Chart | None:
    """Time to the first token."""

    def values(trace: Trace) -> Iterator[float]:
        rows = token_arrivals(trace)
        if rows:
            yield (rows[0][0] - trace.start_ns) / NS_PER_MS

    says = "Share of requests whose first token came at least as soon. All suites."
    return _curves(run, "ttft", "Time to the first token (TTFT)", says, values, "ms")


def _curves(
    run: Measured, name: str, title: str, says: str, values: object, unit: str
) -> Chart | None:
    assert callable(values)
    found: dict[tuple[float, int, str], list[float]] = {}
    for trace in run.recorded.traces.values():
        if trace.ok:
            key = trace.key.temperature, trace.concurrency, trace.arm
            found.setdefault(key, []).extend(values(trace))
    found = {key: ones for key, ones in found.items() if ones}
    if not found:
        return None
    settings = run.settings
    figure, plots = canvas(len(settings), width=4.6 * len(settings))
    rows: list[tuple[Value, ...]] = []
    shares = np.linspace(0, 1, POINTS)
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        for arm in run.arms:
            ones = found.get((temperature, load, arm))
            if ones is None:
                continue
            axes.plot(np.quantile(ones, shares), shares, color=colour(run, arm), label=arm)
            told = [known(float(q)) for q in np.quantile(ones, SHARES)]
            rows.append((f"{temperature:g}", str(load), arm, str(len(ones)), *told))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_title(place(temperature, load), color=INK)
        axes.set_xlabel(unit)
    plots[0].set_ylabel("share")
    legend(figure)
    header = ("temperature", "load", "arm", "n", *(f"p{100 * share:g}" for share in SHARES))
    return Chart(name, title, says, header, rows, figure)
