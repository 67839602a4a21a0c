"""Arms that were not measured side by side, and servers that were started only once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished
from specbench.metrics.units import Pair, open_loop, time_labels

FEWEST_UNITS_FOR_ORDER = 8
"""With random order one arm leads every one of 8 units in 1 of 128 runs only."""

_IN_ONE = "run the arms in one experiment, which alternates them"
_SERVERS = (
    "start each server twice or more, let the servers live side by side, or use history 'own' "
    "where prompts have several turns"
)

_RESTART = "restart the server and run again; one run cannot see how starts differ"
_MORE_STARTS = (
    "intervals leave out how starts differ; set starts = 2 or more, or measure once more after a "
    "restart"
)


def order_guards(
    arm: Sequence[Trace], plain: Sequence[Trace], joined: Sequence[Pair], around: Around
) -> Iterator[Guard]:
    """One arm always first sees a cooler machine or pays for warming it up."""
    if plain and not joined and any(trace.arm != plain[0].arm for trace in arm):
        yield Guard(
            "unpaired",
            "no request was finished by both arms",
            "measure plain and the arm on the same items",
        )
    # Requests of an open loop are timed singly, but their arms take turns by the unit.
    labels = [
        pair.arm.unit if open_loop(pair.arm) else label
        for pair, label in zip(joined, time_labels([pair.arm for pair in joined]), strict=True)
    ]
    leads = {
        label: pair.arm.order - pair.plain.order for label, pair in zip(labels, joined, strict=True)
    }
    apart = any(
        pair.arm.unit != pair.plain.unit or pair.arm.start != pair.plain.start for pair in joined
    )
    same = any(lead == 0 for lead in leads.values())
    one_side = len({lead > 0 for lead in leads.values()}) == 1
    if apart or same or (one_side and len(leads) >= FEWEST_UNITS_FOR_ORDER):
        yield Guard(
            "not_interleaved",
            "arms were not interleaved: one always ran first, or not in the same unit",
            _SERVERS if around.served else _IN_ONE,
        )
    split = sum(pair.arm.resumed != pair.plain.resumed for pair in joined)
    if split:
        yield Guard(
            "split_by_resume",
            f"{split} of {len(joined)} pairs were measured on both sides of a resume",
            "compare counts freely, but measure the speed again without interruption",
        )
    yield from _starts(arm, around)


def _starts(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    kept = finished(arm)
    if around.served and kept and len({trace.start for trace in kept}) == 1:
        yield Guard(
            "one_server_start",
            f"within one start: all {len(kept)} requests were decoded by one start of the server",
            _RESTART if around.attached else _MORE_STARTS,
        )
