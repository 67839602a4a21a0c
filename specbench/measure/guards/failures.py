"""Requests that failed, and requests that were sent more than once (case D8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Finish, Trace
from specbench.measure.guards.guard import Guard

SUCCESS_RATE = 0.99
"""Share of sent requests that must succeed; a server that refuses under load looks quicker."""


def failure_guards(arm: Sequence[Trace]) -> Iterator[Guard]:
    """Failures, a success rate below its gate, and retries; what was never sent does not count."""
    failed = [trace for trace in arm if trace.finish in (Finish.ERROR, Finish.OOM)]
    if failed:
        first = failed[0]
        yield Guard(
            "failures",
            f"{len(failed)} of {len(arm)} requests failed, first {first.key.item}: "
            f"{first.error or first.finish}",
            "fix the cause and resume; a run with failures is incomplete",
        )
    succeeded = sum(trace.ok for trace in arm)
    sent = succeeded + len(failed)
    if failed and succeeded < SUCCESS_RATE * sent:
        yield Guard(
            "success_rate",
            f"{succeeded} of {sent} requests succeeded ({succeeded / sent:.1%}), "
            f"{SUCCESS_RATE:.0%} are needed",
            "do not quote the speed of what succeeded; lower the load or mend the server",
        )
    again = [trace.attempts for trace in arm if trace.attempts > 1]
    if again:
        yield Guard(
            "retried",
            f"{len(again)} of {sent} requests were sent again, at most {max(again)} times in all",
            "their latency holds the failed attempts; look into the server's log",
        )
