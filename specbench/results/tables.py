"""table.csv: every metric of every cell in long form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from specbench.core.manifest import UNQUANTISED, Manifest
from specbench.core.quantity import Quantity
from specbench.core.table import Row
from specbench.results.cells import ALL_SUITES, Cell, MeasuredCell
from specbench.results.definitions import DEFINITIONS

Metrics = Mapping[str, Mapping[str, Quantity]]
"""Metric -> statistic -> quantity."""

IDENTITY_DIGITS = 16
"""Digits of the identity's digest in a row; the manifest has the identity itself."""


def table_rows(
    manifest: Manifest,
    cells: Mapping[Cell, MeasuredCell],
    guards: Mapping[Cell, Sequence[str]],
    further: Mapping[Cell, Metrics],
) -> Iterator[Row]:
    """The rows of table.csv, in the order of the cells.

    Args:
        guards: names of the reasons to distrust a cell.
        further: fidelity and quality of the cells that have them.
    """
    for cell, measured in cells.items():
        start = _cell_row(manifest, cell, " ".join(guards.get(cell, ())))
        for metric, stats in {**measured.metrics, **further.get(cell, {})}.items():
            for stat, quantity in stats.items():
                yield start.measured(metric, stat, DEFINITIONS[metric].label, quantity)


def _cell_row(manifest: Manifest, cell: Cell, guards: str) -> Row:
    arm, identity = manifest.arm(cell.arm), manifest.identity
    splits = {s.split for s in manifest.suites if cell.suite in (s.name, ALL_SUITES)}
    return Row(
        run=manifest.run,
        identity=identity.digest()[:IDENTITY_DIGITS],
        arm=cell.arm,
        drafter=arm.drafter,
        k_max=arm.k,
        tree=arm.tree,
        rule=arm.rule,
        draft_law=arm.draft_law,
        lossless=arm.lossless,
        engine=arm.engine,
        dtype=identity.dtype,
        quant=identity.quant if arm.quant == UNQUANTISED else f"{identity.quant}/{arm.quant}",
        suite=cell.suite,
        split=splits.pop() if len(splits) == 1 else "",
        category=cell.category,
        temperature=cell.temperature,
        concurrency=cell.concurrency,
        guards=guards,
    )
