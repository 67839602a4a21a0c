"""Token counts that are estimates, and counters that saw somebody else's requests (C7, D5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Counted, Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished


def counting_guards(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """Outputs that were counted by re-tokenising, and counters that cannot be used."""
    kept = finished(arm)
    estimated = sum(trace.counted is Counted.ESTIMATED for trace in kept)
    if estimated:
        yield Guard(
            "counted_estimated",
            f"tokens of {estimated} of {len(kept)} outputs are estimated: the server counts none",
            "read times per token with care; use a route or version that sends ids or usage",
        )
    refused = [window for window in around.windows if window.tally is None and window.reason]
    if refused:
        yield Guard(
            "other_traffic",
            f"counters of {len(refused)} of {len(around.windows)} stretches cannot be used, "
            f"first: {refused[0].reason}",
            "keep other users off the server, and let it run through, while it is measured",
        )
