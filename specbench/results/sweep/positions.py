"""Acceptance by position of an arm of a run, for a file: from steps, or from totals."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.quantity import Quantity
from specbench.core.trace import Trace, Window
from specbench.metrics import tallies
from specbench.metrics.profile import profile
from specbench.metrics.totals import totals_of
from specbench.results.summary import figure_of
from specbench.results.sweep.summary import Position


def positions(
    traces: Sequence[Trace], windows: Sequence[Window], *, seed: int
) -> tuple[Position, ...]:
    """One entry per draft position; empty where nothing was drafted, or nobody counted.

    Args:
        windows: of the arm, for engines that show no steps.
    """
    rows = profile(traces, seed=seed)
    found = None if rows else totals_of(traces, windows)
    if found is not None:
        rows = _told(tallies.accept_pos(found))
    return tuple(
        Position(
            place,
            _number(row.get("judged")),
            _number(row.get("reached")),
            _number(row.get("accepted")),
            figure_of(row["cumulative"]),
            figure_of(row["conditional"]),
        )
        for place, row in enumerate(rows, 1)
    )


def _told(counts: dict[str, Quantity]) -> list[dict[str, Quantity]]:
    """Rows of what an engine counted: rates per step with a draft, without intervals."""
    names = {"reached": "reached", "accepted": "accepted", "rate": "cumulative"}
    names["conditional"] = "conditional"
    found: list[dict[str, Quantity]] = []
    while f"accepted_{len(found) + 1}" in counts:
        place = len(found) + 1
        found.append({shown: counts[f"{name}_{place}"] for name, shown in names.items()})
    return found


def _number(quantity: Quantity | None) -> float | None:
    return quantity.number() if quantity is not None and quantity.known else None
