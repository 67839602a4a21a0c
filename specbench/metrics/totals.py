"""What a cell without steps can be tallied from: its requests, or windows of counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specbench.core.quantity import Quantity, unavailable
from specbench.core.trace import Granularity, Tally, Trace, Window
from specbench.metrics.acceptance import absent
from specbench.metrics.timeline import finished
from specbench.metrics.units import item_label

Count = Callable[[Tally], int | None]

FROM_STEPS = "steps of the request"


@dataclass(frozen=True, slots=True)
class Totals:
    """Tallies with the label of the unit that each belongs to, and how to name them."""

    rows: Sequence[tuple[str, Tally]]
    per_request: bool
    method: str


def totals_of(traces: Sequence[Trace], windows: Sequence[Window]) -> Totals | Quantity | None:
    """What these traces can be tallied from.

    Returns:
        None where steps say it all or nothing finished; a missing quantity where nothing says it.
    """
    kept = finished(traces)
    if not kept or all(trace.granularity is Granularity.STEP for trace in kept):
        return None
    told = [(item_label(trace), tally) for trace in kept if (tally := _of_trace(trace)) is not None]
    if len(told) == len(kept):
        return Totals(told, True, _named([tally for _, tally in told]))
    usable = [window.tally for window in windows if window.tally is not None]
    refused = [window.reason for window in windows if window.tally is None]
    if usable:
        method = _named(usable)
        if refused:
            method += f"; {len(refused)} of {len(windows)} windows left out: {refused[0]}"
        return Totals([(str(i), tally) for i, tally in enumerate(usable)], False, method)
    if refused:
        return unavailable(refused[0], "1")
    if told:
        return unavailable(f"{len(kept) - len(told)} of {len(kept)} requests told no totals", "1")
    return absent(traces, "1")


def knowing(found: Totals, *counts: Count) -> Totals | None:
    """The rows that tell all of these, with a word about those left out; None where none does."""
    rows = [row for row in found.rows if all(count(row[1]) is not None for count in counts)]
    if not rows:
        return None
    silent = len(found.rows) - len(rows)
    word = f"; {silent} of {len(found.rows)} left out, which do not tell it" if silent else ""
    return replace(found, rows=rows, method=found.method + word)


def _of_trace(trace: Trace) -> Tally | None:
    """The tally of a request, made from its steps where it has those."""
    if trace.granularity is not Granularity.STEP:
        return trace.tally
    steps = trace.steps
    deepest = max(steps.accepted, default=0)
    return Tally(
        source=FROM_STEPS,
        steps=len(steps),
        drafted_steps=sum(verified > 0 for verified in steps.verified),
        verified=sum(steps.verified),
        accepted=sum(steps.accepted),
        committed=sum(steps.committed),
        accepted_at=[sum(n >= k for n in steps.accepted) for k in range(1, deepest + 1)],
    )


def _named(tallies: Sequence[Tally]) -> str:
    """Sources and weaknesses, each once."""
    said = {f"{t.source} ({t.note})" if t.note else t.source: None for t in tallies}
    return "; ".join(said)
