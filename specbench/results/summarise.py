"""From records and measured cells to the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.arm import PLAIN
from specbench.core.quantity import Missing, Quantity
from specbench.core.trace import Finish
from specbench.fidelity.greedy import GreedySummary, Kind
from specbench.results.cells import ALL_SUITES, Cell, MeasuredCell
from specbench.results.identity import greedy_identity, tolerance
from specbench.results.read import Recorded
from specbench.results.summary import Figure, Summary, SummaryRow
from specbench.results.verdict import sentence

FIGURES = {
    "accept_length": ("accept_length", "value"),
    "accept_length_sound": ("accept_length", "nondegenerate"),
    "accept_rate": ("accept_rate", "value"),
    "itl_p50": ("itl", "p50"),
    "itl_p99": ("itl", "p99"),
    "ttft": ("ttft", "p50"),
    "ttft_overhead": ("ttft_overhead", "mean"),
    "tokens_per_s": ("tokens_per_s_user", "value"),
    "tokens_per_s_device": ("tokens_per_s_device", "value"),
    "speedup": ("speedup", "value"),
    "speedup_sound": ("speedup", "nondegenerate"),
    "speedup_e2e": ("speedup_e2e", "value"),
    "detectable": ("speedup", "detectable"),
    "degenerate_share": ("degenerate_share", "value"),
}
"""Figures of a summary row -> metric and stat of the table."""


def summarise_run(
    recorded: Recorded,
    cells: Mapping[Cell, MeasuredCell],
    guards: Mapping[Cell, Sequence[str]],
    warnings: Sequence[str],
) -> Summary:
    """The summary of a run.

    Args:
        guards: names of the reasons to distrust a cell.
        warnings: what they mean and what to do, for the reader.
    """
    manifest = recorded.manifest
    limit = tolerance(manifest)
    rows = tuple(
        _row(recorded, cell, measured, guards.get(cell, ()), limit)
        for cell, measured in cells.items()
        if not cell.category
    )
    traces = recorded.traces.values()
    skipped = [trace for trace in traces if trace.finish is Finish.SKIPPED]
    failed = [trace for trace in traces if not trace.ok and trace.finish is not Finish.SKIPPED]
    ok = sum(trace.ok for trace in traces)
    names = {suite.name for suite in manifest.suites}
    pooled = [row for row in rows if row.suite == ALL_SUITES or len(names) == 1]
    return Summary(
        run=manifest.run,
        title=manifest.title,
        target=manifest.identity.target,
        dtype=manifest.identity.dtype,
        device=manifest.identity.device,
        complete=ok + len(skipped) == manifest.planned and not failed and recorded.finished,
        planned=manifest.planned,
        ok=ok,
        failed=len(failed),
        skipped=len(skipped),
        conversations=sum(suite.items for suite in manifest.suites),
        resumes=recorded.resumes,
        sentence=sentence(pooled),
        rows=rows,
        warnings=tuple(warnings),
        failures=tuple(
            f"{trace.key.suite}/{trace.key.item} turn {trace.key.turn + 1}, arm {trace.arm}, "
            f"temperature {trace.key.temperature:g}: {trace.finish}: {trace.error}"
            for trace in [*failed, *skipped]
        ),
        memory=recorded.memory,
    )


def _row(
    recorded: Recorded, cell: Cell, measured: MeasuredCell, guards: Sequence[str], limit: float
) -> SummaryRow:
    arm = recorded.manifest.arm(cell.arm)
    found = greedy_identity(cell, measured, limit)
    return SummaryRow(
        suite=cell.suite,
        temperature=cell.temperature,
        concurrency=cell.concurrency,
        arm=cell.arm,
        prompts=len({(t.key.suite, t.key.item) for t in measured.traces if t.ok}),
        rule="" if cell.arm == PLAIN else arm.rule,
        lossless=arm.lossless,
        identity=_verdict(found),
        identity_detail="" if found is None or not found.differing else str(found),
        figures={
            name: _figure(measured.metrics[metric][stat])
            for name, (metric, stat) in FIGURES.items()
        },
        guards=tuple(guards),
    )


def _verdict(found: GreedySummary | None) -> str:
    if found is None:
        return ""
    mismatches, ties = found.named(Kind.MISMATCH), found.named(Kind.TIE)
    total = found.identical + len(found.differing)
    if mismatches:
        return f"MISMATCH {len(mismatches)}/{total}"
    return f"tie {len(ties)}/{total}" if ties else "identical"


def _figure(quantity: Quantity) -> Figure:
    if isinstance(quantity.value, Missing):
        return Figure(None, quantity.unit, reason=str(quantity.value))
    return Figure(quantity.value, quantity.unit, quantity.low, quantity.high, quantity.n)
