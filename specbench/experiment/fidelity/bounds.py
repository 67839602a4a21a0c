"""Verdicts where the reference knows its own rows only in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specbench.fidelity.bounded import doubts
from specbench.fidelity.columns import columns
from specbench.fidelity.verdict import judge
from specbench.results.cells import Cell, CellRecords
from specbench.results.fidelity import CellFidelity


def judge_bounded(
    measured: Mapping[Cell, CellFidelity],
    records: Mapping[Cell, CellRecords],
    alpha: float,
    support_tolerance: float,
) -> tuple[dict[Cell, CellFidelity], list[str]]:
    """The cells with verdicts that allow for what the rows do not say, and a note per cell.

    Cells whose evidence is exact, or that were not tested, come back as they are.

    Args:
        measured, records: the cells of one family of tests.
        alpha: chance of a false alarm over all of them.
    """
    known = {
        cell: doubts(records[cell].traces)
        for cell, found in measured.items()
        if found.verdict.tests
    }
    if not any(known.values()):
        return dict(measured), []
    names = {str(index): cell for index, cell in enumerate(known)}
    verdicts = judge(
        {name: columns(records[cell].traces) for name, cell in names.items()},
        alpha,
        support_tolerance=support_tolerance,
        doubts={name: known[cell] for name, cell in names.items()},
    )
    judged = dict(measured)
    for name, cell in names.items():
        judged[cell] = replace(measured[cell], verdict=verdicts[name])
    notes = [
        f"T={cell.temperature:g} {cell.arm}: {found}" for cell, found in known.items() if found
    ]
    return judged, notes
