"""What a cell without steps can be tallied from: its requests, or windows of counters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specbench.core.quantity import Quantity, unavailable
from specbench.core.trace import Granularity, Tally, Trace, Window
from specbench.metrics.acceptance import absent, stepped
from specbench.metrics.identities import tally_violations
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
    """What these traces can be tallied from, if any: their own totals, or counter windows.

    Whichever covers more of the requests is taken; ``method`` says how many where that is not all.
    Totals that contradict themselves or count nothing are untold.

    Returns:
        None where steps say it or nothing finished; a missing quantity where nothing says it.
    """
    kept = finished(traces)
    steps = any(len(trace.steps) for trace in stepped(kept))
    if not kept or steps or all(trace.granularity is Granularity.STEP for trace in kept):
        return None
    windows = [_sound(window) for window in windows]
    told = [(item_label(trace), tally) for trace in kept if (tally := tally_of(trace)) is not None]
    if all(tally.source == FROM_STEPS for _, tally in told):
        told = []  # Requests of one token: that they have no steps says nothing about the others.
    usable = [(window.sent, window.tally) for window in windows if window.tally is not None]
    seen = sum(sent for sent, _ in usable)
    broken = [text for trace in kept for text in _unusable(trace.tally)]
    if told and len(told) >= min(seen, len(kept)):
        method = _covering(_named([tally for _, tally in told]), len(told), len(kept), broken)
        return Totals(told, True, method)
    refused = [window.reason for window in windows if window.tally is None]
    if usable:
        method = _named([tally for _, tally in usable])
        if refused:
            method += f"; {len(refused)} of {len(windows)} windows left out: {refused[0]}"
        method = _covering(method, seen, len(kept))
        return Totals([(str(i), tally) for i, (_, tally) in enumerate(usable)], False, method)
    reasons = [*broken, *refused]
    return unavailable(reasons[0], "1") if reasons else absent(traces, "1")


def not_split(windows: Sequence[Window], by: str) -> list[Window]:
    """The windows of requests that are only some of those counted: none is of any use."""
    return [Window(w.sent, None, f"counters cannot be split by {by}") for w in windows]


def knowing(found: Totals, *counts: Count) -> Totals | None:
    """The rows that tell all of these, with a word about those left out; None where none does."""
    rows = [row for row in found.rows if all(count(row[1]) is not None for count in counts)]
    if not rows:
        return None
    silent = len(found.rows) - len(rows)
    word = f"; {silent} of {len(found.rows)} left out, which do not tell it" if silent else ""
    return replace(found, rows=rows, method=found.method + word)


def tally_of(trace: Trace) -> Tally | None:
    """The tally of a request, made from its steps where it has those; None where it is no good."""
    if trace.granularity is not Granularity.STEP:
        tally = trace.tally
        return None if tally is None or _silent(tally) or _unusable(tally) else tally
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


def _silent(tally: Tally) -> bool:
    """Whether no count is told: the note of such a tally says why."""
    counts = (tally.steps, tally.drafted_steps, tally.verified, tally.accepted, tally.committed)
    return not tally.accepted_at and all(count is None for count in counts)


def _unusable(tally: Tally | None) -> list[str]:
    """Why a tally cannot be used, as far as it says so."""
    if tally is None:
        return []
    if _silent(tally):
        return [tally.note] if tally.note else []
    return list(tally_violations(tally))


def _sound(window: Window) -> Window:
    """The window, refused where its counters contradict each other."""
    broken = _unusable(window.tally)
    return Window(window.sent, None, broken[0]) if broken else window


def _covering(method: str, covered: int, total: int, broken: Sequence[str] = ()) -> str:
    """The method with how much of the cell it covers, where that is a part."""
    if covered >= total:
        return method
    why = f"; left out: {broken[0]}" if broken else ""
    return f"{method}; {covered} of {total} requests{why}"


def _named(tallies: Sequence[Tally]) -> str:
    """Sources and weaknesses, each once."""
    said = {f"{t.source} ({t.note})" if t.note else t.source: None for t in tallies}
    return "; ".join(said)
