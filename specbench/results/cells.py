"""The cells of a run: suite x temperature x concurrency x arm, each measured once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from specbench.catalog import SERVERS
from specbench.core.arm import PLAIN, ArmMemory
from specbench.core.manifest import Manifest
from specbench.core.quantity import Quantity
from specbench.core.trace import Tick, Trace, Window
from specbench.metrics.predicted import UNCALIBRATED
from specbench.metrics.table import measure_cell
from specbench.metrics.totals import not_split
from specbench.results.limit import LIMITED, memory_limit
from specbench.results.read import Recorded
from specbench.results.step_costs import PREDICTION, arm_costs, step_costs

Part = TypeVar("Part", Tick, Window)

ALL_SUITES = "all"
"""Name of the cells that pool every suite of a run."""


def whole_cell(manifest: Manifest) -> str:
    """The cell over everything a run measured: of one suite it is that suite's."""
    names = [suite.name for suite in manifest.suites]
    return ALL_SUITES if len(names) > 1 else names[0]


class Cell(NamedTuple):
    """Names one cell of the table."""

    suite: str
    temperature: float
    concurrency: int
    arm: str
    category: str = ""
    """Empty for the whole suite."""


class CellRecords(NamedTuple):
    """The requests of a cell, and plain's for the same prompts."""

    traces: tuple[Trace, ...]
    plain: tuple[Trace, ...]


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """A cell with the records behind it and every metric -> stat -> quantity."""

    traces: tuple[Trace, ...]
    plain: tuple[Trace, ...]
    ticks: tuple[Tick, ...]
    windows: tuple[Window, ...]
    metrics: Mapping[str, Mapping[str, Quantity]]

    @property
    def records(self) -> CellRecords:
        """The requests alone."""
        return CellRecords(self.traces, self.plain)


def cell_records(recorded: Recorded) -> dict[Cell, CellRecords]:
    """The requests of every cell in table order; pooled ones, where there are several suites, last.

    A category is a cell of its own if the suite has another, and if it holds two prompts or more.
    """
    grouped: dict[Cell, list[Trace]] = {cell: [] for cell in _cells(recorded)}
    for trace in recorded.traces.values():
        key = trace.key
        places = {(key.suite, ""), (ALL_SUITES, ""), (key.suite, trace.category)}
        for suite, category in places:
            cell = Cell(suite, key.temperature, trace.concurrency, trace.arm, category)
            if cell in grouped:
                grouped[cell].append(trace)
    return {
        # An attached server without a plain one beside it has no plain arm.
        cell: CellRecords(tuple(traces), tuple(grouped.get(cell._replace(arm=PLAIN), ())))
        for cell, traces in grouped.items()
    }


def measure_cells(recorded: Recorded) -> dict[Cell, MeasuredCell]:
    """Every cell of a run with all its metrics; those of ``PREDICTION`` where steps were timed,
    those of ``LIMITED`` where it is known what memory allows.
    """
    measured = {}
    manifest, costs = recorded.manifest, step_costs(recorded.manifest)
    limit = memory_limit(manifest)
    left_out = (PREDICTION if costs is None else frozenset()) | (
        LIMITED if limit is None else frozenset()
    )
    for cell, (traces, plain) in cell_records(recorded).items():
        # A block that also holds other categories has nothing that belongs to this one alone.
        shared = bool(cell.category) and cell.concurrency > 1
        ticks = [] if shared else _of_units(recorded.ticks, cell, traces)
        windows = _of_units(recorded.windows, cell, traces)
        windows = not_split(windows, "category") if shared else windows
        metrics = measure_cell(
            traces,
            plain,
            ticks,
            _memory(recorded, cell),
            seed=manifest.seed,
            windows=windows,
            k=_longest(manifest, cell.arm),
            costs=UNCALIBRATED
            if costs is None
            else arm_costs(costs, manifest, cell.arm, cell.temperature, cell.concurrency),
            limit=limit,
        )
        metrics = {name: row for name, row in metrics.items() if name not in left_out}
        measured[cell] = MeasuredCell(traces, plain, tuple(ticks), tuple(windows), metrics)
    return measured


def _longest(manifest: Manifest, name: str) -> int | None:
    """The longest draft that an arm may make; None where its k bounds nothing.

    That of servers is only declared. The heuristic schedule of transformers lengthens drafts by
    itself, and a draft of another tokenizer is counted in tokens of the target.
    """
    arm = manifest.arm(name)
    options = arm.drafter_options
    grows = options.get("schedule") == "heuristic" or options.get("universal") is True
    return None if arm.engine in SERVERS or grows else arm.k


def _cells(recorded: Recorded) -> Iterator[Cell]:
    manifest = recorded.manifest
    identity = manifest.identity
    suites = [suite.name for suite in manifest.suites]
    groups = [(suite, category) for suite in suites for category in ("", *_split(recorded, suite))]
    if len(suites) > 1:
        groups.append((ALL_SUITES, ""))
    for suite, category in groups:
        for sampling in identity.sampling:
            for concurrency in identity.concurrency:
                for arm in manifest.arms:
                    yield Cell(
                        suite, float(sampling["temperature"]), concurrency, arm.name, category
                    )


def _split(recorded: Recorded, suite: str) -> list[str]:
    prompts: dict[str, set[str]] = {}
    for trace in recorded.traces.values():
        if trace.key.suite == suite and trace.category:
            prompts.setdefault(trace.category, set()).add(trace.key.item)
    if len(prompts) < 2:
        return []
    return sorted(category for category, items in prompts.items() if len(items) > 1)


def _of_units(
    held: Mapping[tuple[str, str], Sequence[Part]], cell: Cell, traces: Sequence[Trace]
) -> list[Part]:
    """The ticks or windows of the units behind a cell."""
    units = dict.fromkeys(trace.unit for trace in traces)
    return [part for unit in units for part in held.get((cell.arm, unit), ())]


def _memory(recorded: Recorded, cell: Cell) -> ArmMemory | None:
    held = recorded.memory.get(cell.arm)
    return None if held is None else ArmMemory(**held)
