"""From records and measured cells to the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.arm import PLAIN
from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Finish
from specbench.fidelity.greedy import GreedySummary, Kind
from specbench.fidelity.verdict import NO_EVIDENCE, CellVerdict, Status
from specbench.quality.measure import Quality
from specbench.results.anchors import check_anchors
from specbench.results.cells import ALL_SUITES, Cell, MeasuredCell
from specbench.results.fidelity import LOSSY, MEANINGLESS, CellFidelity
from specbench.results.limit import limit_words, memory_limit
from specbench.results.read import Recorded
from specbench.results.sources import acceptance_sources
from specbench.results.summary import DETECTED, UNSEEN, Summary, SummaryRow, figure_of
from specbench.results.verdict import sentence

FIGURES = {
    "accept_length": ("accept_length", "value"),
    "accept_length_drafted": ("accept_length_drafted", "value"),
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

CALIBRATED_FIGURES = {
    "predicted_speedup": ("predicted_speedup", "value"),
    "predicted_length": ("predicted_speedup", "accept_length"),
    "predicted_drafted": ("predicted_speedup", "drafted"),
    "predicted_step": ("predicted_speedup", "step"),
    "predicted_d": ("predicted_speedup", "d"),
    "predicted_v": ("predicted_speedup", "v"),
    "predicted_o": ("predicted_speedup", "o"),
    "predicted_idle": ("predicted_speedup", "idle"),
    "prediction_error": ("prediction_error", "value"),
    "limit_share": ("limit_share", "value"),
}
"""The same for what needs a calibration: there where it is known; older runs have none of it."""

GRAPH_FIGURES = {"graph_share": ("graph_share", "value")}
"""The same for what only some runs have: there where it has a value."""

QUALITY_STATS = ("value", "plain", "difference", "p")

FIDELITY_FIGURES = {
    "price_tv": ("price", "tv"),
    "price_tv_worst": ("price", "tv_worst"),
    "price_kl": ("price", "kl"),
    "price_entropy": ("price", "entropy_shift"),
    "fidelity_p": ("fidelity", "p"),
    "fidelity_detectable": ("fidelity", "detectable"),
}
"""The same for what is measured of cells that are not categories."""


def summarise_run(
    recorded: Recorded,
    cells: Mapping[Cell, MeasuredCell],
    fidelity: Mapping[Cell, CellFidelity],
    quality: Mapping[Cell, Quality],
    guards: Mapping[Cell, Sequence[str]],
    warnings: Sequence[str],
) -> Summary:
    """The summary of a run.

    Args:
        fidelity, quality: of every cell that is not a category.
        guards: names of the reasons to distrust a cell.
        warnings: what they mean and what to do, for the reader.
    """
    manifest = recorded.manifest
    rows = tuple(
        _row(recorded, cell, measured, fidelity[cell], quality[cell], guards.get(cell, ()))
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
        quant=manifest.identity.quant,
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
        signatures={m: s for found in quality.values() for m, s in found.signatures.items()},
        acceptance=acceptance_sources(recorded),
        anchors=check_anchors(manifest, cells, guards),
        stopped=recorded.stopped,
        limit=limit_words(memory_limit(manifest)),
    )


def _row(
    recorded: Recorded,
    cell: Cell,
    measured: MeasuredCell,
    fidelity: CellFidelity,
    quality: Quality,
    guards: Sequence[str],
) -> SummaryRow:
    arm = recorded.manifest.arm(cell.arm)
    found, further = fidelity.greedy, fidelity.quantities()
    return SummaryRow(
        suite=cell.suite,
        temperature=cell.temperature,
        concurrency=cell.concurrency,
        arm=cell.arm,
        prompts=len({(t.key.suite, t.key.item) for t in measured.traces if t.ok}),
        rule="" if cell.arm == PLAIN else arm.rule_label,
        lossless=arm.lossless,
        identity=_greedy_word(found, arm.lossless) or _word(fidelity.verdict, arm.lossless),
        identity_detail="" if found is None or not found.differing else str(found),
        figures={
            name: figure_of(measured.metrics[metric][stat])
            for name, (metric, stat) in FIGURES.items()
        }
        | {
            name: figure_of(measured.metrics[metric][stat])
            for name, (metric, stat) in CALIBRATED_FIGURES.items()
            if stat in measured.metrics.get(metric, {})
        }
        | {
            name: figure_of(measured.metrics[metric][stat])
            for name, (metric, stat) in GRAPH_FIGURES.items()
            if measured.metrics[metric][stat].known
        }
        | {
            name: figure_of(further[metric][stat])
            for name, (metric, stat) in FIDELITY_FIGURES.items()
        },
        guards=tuple(guards),
        fidelity=_told(cell, fidelity.verdict),
        price_exact=fidelity.price.exact,
        quality={
            metric: {stat: figure_of(stats[stat]) for stat in QUALITY_STATS}
            for metric, stats in quality.metrics.items()
            if metric in quality.signatures
        },
    )


def _greedy_word(found: GreedySummary | None, lossless: str) -> str:
    if found is None:
        return ""
    mismatches, ties = found.named(Kind.MISMATCH), found.named(Kind.TIE)
    total = found.identical + len(found.differing)
    if mismatches:
        # From a lossy rule a difference is what was asked for, not a defect.
        word = "differs" if lossless in (LOSSY, MEANINGLESS) else "MISMATCH"
        return f"{word} {len(mismatches)}/{total}"
    if unjudged := found.named(Kind.UNJUDGED):
        return f"differs {len(unjudged)}/{total}"
    return f"tie {len(ties)}/{total}" if ties else "identical"


def _told(cell: Cell, verdict: CellVerdict) -> str:
    """The verdict in full; nothing where there was nothing to test, but damage is told."""
    nothing = cell.temperature < GREEDY_BELOW or verdict.reason == NO_EVIDENCE
    return "" if nothing else str(verdict)


def _word(verdict: CellVerdict, lossless: str) -> str:
    """The token-level verdict in a word; a lossy arm does not fail, it is detected or not."""
    match verdict.status:
        case Status.NOT_TESTED:
            return ""
        case Status.TOO_FEW:
            return "too few"
    failed = verdict.status is Status.FAILED
    if lossless == MEANINGLESS:
        return MEANINGLESS
    if lossless == LOSSY:
        return DETECTED if failed else UNSEEN
    return "FAILED" if failed else "passed"
