"""Speed-up by suite, temperature and arm."""

from __future__ import annotations

from specbench.report.page.chart import Chart
from specbench.report.page.charts.bars import bars
from specbench.report.page.measured import Measured


def speedup(run: Measured) -> Chart | None:
    """Decode time per token of plain over that of each arm."""
    return bars(
        run,
        run.speculative,
        "speedup",
        "Speed-up over plain decoding",
        "Decode time per token of plain over that of the arm, on the same requests, with 95 % "
        "intervals. Below the line at 1 the arm is slower.",
        "times plain",
        1.0,
    )
