"""Token counts that are estimates, and counters that saw somebody else's requests (C7, D5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.arm import PLAIN
from specbench.core.trace import Counted, Trace
from specbench.engines.telemetry.reasons import OTHER_TRAFFIC, RESTARTED, UNCOUNTED
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished


def counting_guards(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """Outputs that were counted by re-tokenising, and counters that disagree with what was sent."""
    kept = finished(arm)
    estimated = sum(trace.counted is Counted.ESTIMATED for trace in kept)
    if estimated:
        yield Guard(
            "counted_estimated",
            f"tokens of {estimated} of {len(kept)} outputs are estimated: the server counts none",
            "read times per token with care; use a route or version that sends ids or usage",
        )
    # Plain decoding has no acceptance, so that nothing is read from its counters.
    if all(trace.arm != PLAIN for trace in arm):
        yield from _refused(around)


def _refused(around: Around) -> Iterator[Guard]:
    """Counters that cannot be read, or that show nothing, are no reason: their figures are n/a."""
    for code, beginnings, next_step in _KINDS:
        reasons = [
            window.reason
            for window in around.windows
            if window.tally is None and window.reason.startswith(beginnings)
        ]
        if reasons:
            yield Guard(
                code,
                f"counters of {len(reasons)} of {len(around.windows)} stretches cannot be used, "
                f"first: {reasons[0]}",
                next_step,
            )


_KINDS = (
    (
        "other_traffic",
        (OTHER_TRAFFIC, UNCOUNTED),
        "keep other users off the server while it is measured",
    ),
    (
        "counters_restarted",
        (RESTARTED,),
        "let the server run through while it is measured; its log says why it did not",
    ),
)
