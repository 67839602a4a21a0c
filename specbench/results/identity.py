"""Greedy identity of a cell: does the arm emit plain's tokens at temperature 0?"""

from __future__ import annotations

from collections.abc import Mapping

from specbench.core.manifest import Manifest
from specbench.core.quantity import Quantity, nothing
from specbench.core.request import GREEDY_BELOW, RequestKey
from specbench.fidelity.greedy import GreedySummary, Kind, compare_traces, summarise
from specbench.metrics.units import pairs
from specbench.results.cells import Cell, CellRecords

DEFAULT_TOLERANCE = {"float32": 1e-3}
"""Largest top-2 margin that counts as a tie where the engine measured none."""
COARSE_TOLERANCE = 0.25


def tolerance(manifest: Manifest) -> float:
    """The engine's measured tolerance in logits, else a default for the dtype."""
    measured = manifest.engine.get("tie_tolerance")
    if isinstance(measured, int | float):
        return float(measured)
    return DEFAULT_TOLERANCE.get(manifest.identity.dtype, COARSE_TOLERANCE)


def greedy_identity(cell: Cell, records: CellRecords, limit: float) -> GreedySummary | None:
    """Verdicts of a cell against plain; None where the cell is plain, sampled or unpaired.

    Only requests with the same prompt are compared: under ``own`` history a second turn may
    follow another first answer.
    """
    if cell.temperature >= GREEDY_BELOW or records.traces == records.plain:
        return None
    verdicts = {
        _name(pair.arm.key): compare_traces(pair.plain, pair.arm, limit)
        for pair in pairs(records.traces, records.plain)
        if pair.arm.prompt_hash == pair.plain.prompt_hash
    }
    return summarise(verdicts) if verdicts else None


def _name(key: RequestKey) -> str:
    name = f"{key.suite}/{key.item}"
    name += f" turn {key.turn + 1}" if key.turn else ""
    return name + (f" repeat {key.repeat + 1}" if key.repeat else "")


def quantities(found: GreedySummary | None) -> Mapping[str, Quantity]:
    """Counts of the verdicts as table rows."""
    if found is None:
        return {str(kind): nothing("nothing to compare with plain", "requests") for kind in Kind}
    total = found.identical + len(found.differing)
    counts = {kind: len(found.named(kind)) for kind in Kind}
    counts[Kind.IDENTICAL] = found.identical
    return {str(kind): Quantity(float(counts[kind]), "requests", n=total) for kind in Kind}
