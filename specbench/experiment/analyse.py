"""From what is on disk to tables and summary; needs neither an engine nor torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from specbench.core.arm import PLAIN
from specbench.core.table import COLUMNS
from specbench.core.trace import Window
from specbench.experiment.guarding import around, draft_is_target
from specbench.experiment.quality import measure_quality
from specbench.fidelity.greedy import Kind
from specbench.fidelity.verdict import Status
from specbench.measure.guards import Guard, cell_guards, concurrency_guard, prompt_guards
from specbench.report.markdown import markdown
from specbench.results.cells import ALL_SUITES, Cell, MeasuredCell, measure_cells
from specbench.results.fidelity import LOSSY, MEANINGLESS, CellFidelity, measure_fidelity
from specbench.results.items import COLUMNS as ITEM_COLUMNS
from specbench.results.items import csv_text, item_rows
from specbench.results.read import Recorded, read_run
from specbench.results.rounding import difference
from specbench.results.store import (
    RunFolder,
    write_atomic,
)
from specbench.results.summarise import summarise_run
from specbench.results.summary import Summary, read_summary, summary_text
from specbench.results.tables import table_rows


def analyse(folder: RunFolder, write: bool = True, execute: bool = False) -> Summary:
    """Measure what is on disk.

    Args:
        write: rebuild items.csv, table.csv and the summary.
        execute: run model-written code in a sandbox to score it.

    Raises:
        PrerequisiteError: code is to be run and this machine cannot fence it off.
    """
    summary, files = _derived(folder, execute)
    if write:
        for path, text in files():
            write_atomic(path, text)
    return summary


def differences(folder: RunFolder) -> dict[str, str]:
    """Name of each file of a run that is not what its traces give -> where it differs, in words.

    Numbers may differ by rounding, and so the page for people is held against the summary beside
    it, from which it was printed, where that one is right.
    """
    _, files = _derived(folder, execute=False)
    found = {}
    for path, text in files():
        right = folder.summary_json.name not in found
        due = markdown(read_summary(folder)) if path == folder.summary_md and right else text
        try:
            there = path.read_bytes().decode()
        except (OSError, ValueError) as error:
            found[path.name] = f"cannot be read: {error}"
            continue
        if where := difference(there, due, path.suffix):
            found[path.name] = where
    return found


def _derived(
    folder: RunFolder, execute: bool
) -> tuple[Summary, Callable[[], Iterator[tuple[Path, str]]]]:
    """The summary of a run, and what makes its derived files with their content."""
    recorded = read_run(folder)
    cells = measure_cells(recorded)
    guards = _guards(recorded, cells)
    records = {cell: measured.records for cell, measured in cells.items()}
    fidelity = measure_fidelity(recorded.manifest, records, complete=recorded.whole)
    quality = measure_quality(folder, recorded, records, execute)
    for cell, measured in fidelity.items():
        guards[cell] += fidelity_guards(measured, recorded.manifest.arm(cell.arm).lossless)
    codes = {cell: [guard.code for guard in found] for cell, found in guards.items()}
    warnings = [*_warnings(guards), *([quality.warning] if quality.warning else [])]
    summary = summarise_run(recorded, cells, fidelity, quality.cells, codes, warnings)

    def files() -> Iterator[tuple[Path, str]]:
        further = {
            cell: {**found.quantities(), **quality.cells[cell].metrics}
            for cell, found in fidelity.items()
        }
        rows = table_rows(recorded.manifest, cells, codes, further)
        yield folder.items, csv_text(ITEM_COLUMNS, item_rows(recorded, quality.scores))
        yield folder.table, csv_text(COLUMNS, (row.cells() for row in rows))
        yield folder.summary_json, summary_text(summary)
        yield folder.summary_md, markdown(summary)

    return summary, files


def _guards(recorded: Recorded, cells: Mapping[Cell, MeasuredCell]) -> dict[Cell, list[Guard]]:
    manifest = recorded.manifest
    found = {
        cell: [
            *cell_guards(
                measured.traces,
                measured.plain,
                measured.metrics,
                draft_is_target=draft_is_target(manifest, manifest.arm(cell.arm)),
                around=around(recorded, cell, measured.windows, _plain_windows(cells, cell)),
            ),
            *prompt_guards(manifest.prompts.get(cell.suite, {})),
        ]
        for cell, measured in cells.items()
        if not cell.category
    }
    families: dict[Cell, dict[int, MeasuredCell]] = {}
    for cell in found:
        families.setdefault(cell._replace(concurrency=0), {})[cell.concurrency] = cells[cell]
    for family, by_concurrency in families.items():
        traces = {level: measured.traces for level, measured in by_concurrency.items()}
        for guard in concurrency_guard(traces, seed=manifest.seed):
            found[family._replace(concurrency=max(by_concurrency))].append(guard)
    return found


def _plain_windows(cells: Mapping[Cell, MeasuredCell], cell: Cell) -> Sequence[Window]:
    plain = cells.get(cell._replace(arm=PLAIN))
    return () if plain is None else plain.windows


def fidelity_guards(found: CellFidelity, lossless: str) -> list[Guard]:
    """Outputs of an arm that claims to be lossless and are not the target's."""
    if lossless in (LOSSY, MEANINGLESS):
        return []
    if found.greedy is not None and not found.greedy.passed:
        return [Guard("output_differs", f"not plain's output: {found.greedy}", _PROVE)]
    if found.greedy is not None and found.greedy.named(Kind.UNJUDGED):
        return [Guard("output_unjudged", f"not always plain's output: {found.greedy}", _JUDGE)]
    if found.verdict.status is Status.FAILED:
        return [Guard("output_differs", f"not the target's output: {found.verdict}", _PROVE)]
    return []


_JUDGE = (
    "the engine shows no logits that tell a tie from a defect; `specbench fidelity RUN --reference "
    "MODEL` judges every difference, repeats show how often plain differs from itself"
)
_PROVE = "do not quote the speed-up; `specbench laws` and `specbench fidelity` narrow it down"


def _warnings(guards: Mapping[Cell, Sequence[Guard]]) -> list[str]:
    """One line per kind of guard: where it was seen first, how often, and what to do."""
    grouped: dict[str, list[tuple[Cell, Guard]]] = {}
    for cell, found in guards.items():
        for guard in found:
            if cell.suite != ALL_SUITES:
                grouped.setdefault(guard.code, []).append((cell, guard))
    lines = []
    for code, seen in grouped.items():
        cell, guard = seen[0]
        more = f" (and {len(seen) - 1} more cells)" if len(seen) > 1 else ""
        place = f"{cell.suite}, temperature {cell.temperature:g}, {cell.arm}"
        lines.append(f"{code}: {place}{more}: {guard.text}; {guard.next_step}")
    return lines
