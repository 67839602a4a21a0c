"""Where the acceptance of servers comes from: their steps, totals of requests, or counters."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.catalog import SERVERS
from specbench.core.arm import PLAIN
from specbench.core.quantity import Quantity
from specbench.core.trace import Trace, Window
from specbench.metrics.acceptance import stepped
from specbench.metrics.timeline import finished
from specbench.metrics.totals import Totals, totals_of
from specbench.results.read import Recorded

COUNTERS = "counters at "
"""How the source of a counter's tally begins, with the addresses behind it."""


def acceptance_sources(recorded: Recorded) -> tuple[str, ...]:
    """One line for all arms on servers but plain; one for each kind of source where they differ.

    Empty where no arm is a server, or none of them finished a request.
    """
    arms: dict[str, list[str]] = {}
    for arm in recorded.manifest.arms:
        if arm.name == PLAIN or arm.engine not in SERVERS:
            continue
        traces = [trace for trace in recorded.traces.values() if trace.arm == arm.name]
        held = recorded.windows.items()
        windows = [window for (name, _), found in held if name == arm.name for window in found]
        if finished(traces):
            arms.setdefault(_source(traces, windows), []).append(arm.name)
    if len(arms) == 1:
        return tuple(f"acceptance: {source}" for source in arms)
    return tuple(f"acceptance of {', '.join(names)}: {source}" for source, names in arms.items())


def _source(traces: Sequence[Trace], windows: Sequence[Window]) -> str:
    found, total = totals_of(traces, windows), len(finished(traces))
    if found is None:
        return "every decode step, as the server reports it" + _part(len(stepped(traces)), total)
    if isinstance(found, Quantity):
        return f"none ({found.value})"
    named = ", ".join(dict.fromkeys(tally.source for _, tally in found.rows))
    if found.per_request:
        return f"totals per request ({named})" + _part(len(found.rows), total)
    return f"counters ({_addresses(found)}), {len(found.rows)} of {len(windows)} windows"


def _part(covered: int, total: int) -> str:
    return f", {covered} of {total} requests" if covered < total else ""


def _addresses(found: Totals) -> str:
    """Servers that are started anew get other addresses, which say nothing to the reader."""
    named = dict.fromkeys(tally.source.removeprefix(COUNTERS) for _, tally in found.rows)
    return next(iter(named)) if len(named) == 1 else f"{len(named)} addresses"
