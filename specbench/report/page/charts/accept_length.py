"""Accept length by suite, temperature and arm."""

from __future__ import annotations

from specbench.report.page.chart import Chart
from specbench.report.page.charts.bars import bars
from specbench.report.page.measured import Measured


def accept_length(run: Measured) -> Chart | None:
    """Committed tokens per decode step."""
    return bars(
        run,
        run.speculative,
        "accept_length",
        "Accept length",
        "Committed tokens per decode step, the recovered or bonus token included, with 95 % "
        "intervals. Plain decoding is 1.",
        "tokens per step",
        1.0,
    )
