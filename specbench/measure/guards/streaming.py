"""Answers that came in one piece although a stream was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Granularity, Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished


def streaming_guards(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """Every answer of a server in one piece: something on the way collects what it streams."""
    kept = finished(arm)
    whole = all(trace.granularity is Granularity.REQUEST for trace in kept)
    if around.served and kept and whole:
        yield Guard(
            "not_streamed",
            f"streaming was asked for, but all {len(kept)} answers came in one piece",
            "check the proxy or gateway before the server; times within an answer are unknown",
        )
