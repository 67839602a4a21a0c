"""One file per chart; ``CHARTS`` is their order on the page."""

from __future__ import annotations

from specbench.report.page.chart import Maker
from specbench.report.page.charts.accept_length import accept_length
from specbench.report.page.charts.best_k import best_k
from specbench.report.page.charts.evidence import evidence
from specbench.report.page.charts.latencies import itl, ttft
from specbench.report.page.charts.lengths import lengths
from specbench.report.page.charts.phases import phases
from specbench.report.page.charts.positions import positions
from specbench.report.page.charts.prices import prices
from specbench.report.page.charts.speedup import speedup
from specbench.report.page.charts.where import where

CHARTS: tuple[Maker, ...] = (
    speedup,
    accept_length,
    positions,
    lengths,
    itl,
    ttft,
    phases,
    best_k,
    where,
    prices,
    evidence,
)
