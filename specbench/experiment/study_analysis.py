"""Puts the runs of a study side by side: what each shows, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.core.trace import Trace
from specbench.errors import NotComparable
from specbench.experiment.analyse import analyse
from specbench.experiment.study_schema import LIFTED
from specbench.metrics.alpha import alpha
from specbench.report.cells import state
from specbench.report.study import study_markdown
from specbench.results.cells import ALL_SUITES, Cell, CellRecords, cell_records
from specbench.results.comparable import require_comparable
from specbench.results.contrasts import contrasts, length_difference
from specbench.results.read import Recorded, read_run
from specbench.results.resume import differences
from specbench.results.store import RunFolder, write_atomic
from specbench.results.study import (
    Member,
    StudyFolder,
    StudyRow,
    StudySummary,
    read_study,
    study_text,
)
from specbench.results.study_sentences import setting_sentences
from specbench.results.summary import Summary, figure_of, read_summary

WAY_ON = "the runs of a study are of one experiment: run it again, into a new folder"
SHOWN = ("accept_length", "accept_rate", "speedup")
"""Figures that a study takes from the summaries of its runs."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A run of a study, read."""

    folder: RunFolder
    recorded: Recorded
    summary: Summary
    cells: Mapping[Cell, CellRecords]


def analyse_study(folder: StudyFolder, *, write: bool = True) -> StudySummary:
    """Put the runs of a study side by side; those that have not begun are left out.

    Args:
        write: renew study.json and study.md.

    Raises:
        NotComparable: the runs differ in more than the study's key.
    """
    planned = read_study(folder)
    runs = folder.runs(planned.key)
    held = {value: _read(runs[value]) for value in planned.values if value in runs}
    manifests = {value: one.recorded.manifest for value, one in held.items()}
    assumed = require_members(manifests, planned.key)
    pooled = _pooled(manifests)
    first = held.get(planned.values[0])
    members = tuple(_member(value, held.get(value)) for value in planned.values)
    summary = replace(
        planned,
        complete=all(member.complete for member in members),
        members=members,
        pooled=pooled,
        rows=tuple(row for value, one in held.items() for row in _rows(value, one, first)),
        sentences=tuple(_sentences(planned.key, held, pooled)) if first else (),
        assumed=assumed,
    )
    if write:
        write_atomic(folder.document, study_text(summary))
        write_atomic(folder.page, study_markdown(summary))
    return summary


def require_members(manifests: Mapping[str, Manifest], key: str) -> tuple[str, ...]:
    """Refuse runs that differ in more than what a study's key decides.

    Returns:
        Keys that no run knows, and that are taken as equal: one experiment began all of them.

    Raises:
        NotComparable: names what differs: identity, arms, prompts or seed.
    """
    runs = list(manifests.values())
    assumed = require_comparable(runs, True, lifted=LIFTED[key], way_on=WAY_ON)
    for one, other in pairwise(runs):
        found = [*differences(_design(one), _design(other))]
        if found:
            lines = "; ".join(f"{name}: {before} != {after}" for name, before, after in found)
            raise NotComparable(
                f"runs {one.run} and {other.run} did not measure the same: {lines}", WAY_ON
            )
    return assumed


def _design(manifest: Manifest) -> dict[str, object]:
    return {
        "seed": manifest.seed,
        "arms": {
            arm.name: [arm.drafter, arm.k, arm.rule_label, arm.engine, dict(arm.drafter_options)]
            for arm in manifest.arms
        },
        "prompts": {suite.name: suite.items_digest for suite in manifest.suites},
    }


def _read(folder: RunFolder) -> _Held:
    recorded = read_run(folder)
    known = folder.summary_json.exists()
    summary = read_summary(folder) if known else analyse(folder, write=False)
    return _Held(folder, recorded, summary, cell_records(recorded))


def _member(value: str, held: _Held | None) -> Member:
    if held is None:
        return Member(value, "", False, "not begun")
    summary, identity = held.summary, held.recorded.manifest.identity
    return Member(
        value,
        held.folder.path.name,
        summary.complete,
        state(summary),
        identity.dtype,
        identity.quant,
        summary.warnings,
        summary.skipped,
    )


def _pooled(manifests: Mapping[str, Manifest]) -> str:
    names = {suite.name for manifest in manifests.values() for suite in manifest.suites}
    return names.pop() if len(names) == 1 else ALL_SUITES


def _rows(value: str, held: _Held, first: _Held | None) -> Iterator[StudyRow]:
    manifest = held.recorded.manifest
    for row in held.summary.rows:
        if row.arm == PLAIN:
            continue
        cell = Cell(row.suite, row.temperature, row.concurrency, row.arm)
        figures = {name: row.figures[name] for name in SHOWN}
        traces = held.cells[cell].traces
        figures["alpha"] = figure_of(alpha(traces, seed=manifest.seed))
        if first is not None and first is not held:
            other = first.cells[cell].traces
            figures["difference"] = figure_of(length_difference(traces, other, manifest.seed))
        yield StudyRow(
            value=value,
            suite=row.suite,
            temperature=row.temperature,
            concurrency=row.concurrency,
            arm=row.arm,
            draft_quant=manifest.arm(row.arm).quant,
            lossless=row.lossless,
            identity=row.identity,
            prompts=row.prompts,
            figures=figures,
            guards=row.guards,
        )


def _sentences(key: str, held: Mapping[str, _Held], pooled: str) -> Iterator[str]:
    manifests = {value: one.recorded.manifest for value, one in held.items()}
    cells = [cell for one in held.values() for cell in one.cells if not cell.category]
    settings = dict.fromkeys((cell.temperature, cell.concurrency) for cell in cells)
    loaded = len({concurrency for _, concurrency in settings}) > 1
    for temperature, concurrency in settings:
        traces: dict[tuple[str, str], tuple[Trace, ...]] = {
            (value, arm.name): one.cells[Cell(pooled, temperature, concurrency, arm.name)].traces
            for value, one in held.items()
            for arm in manifests[value].arms
        }
        place = f"At temperature {temperature:g}"
        place += f" and concurrency {concurrency}" if loaded else ""
        yield from setting_sentences(contrasts(manifests, key, traces), place, key)
