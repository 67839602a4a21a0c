"""Share of what memory allows that decoding reached."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.limit import Limit
from specbench.core.quantity import Quantity, unavailable
from specbench.core.trace import Tick, TickKind, Trace
from specbench.metrics.phases import NO_TICKS
from specbench.metrics.timeline import NS_PER_S

UNKNOWN = "how fast memory is read here, or what a forward reads, is not known"


def limit_share(traces: Sequence[Trace], ticks: Sequence[Tick], limit: Limit | None) -> Quantity:
    """Time of reading the weights once per decode tick and each context once per step, over the
    time of the ticks.

    A lower bound of the target's own forwards alone: what drafts read is not in it, so that the
    share of an arm that drafts says how much of its time only the target could explain.

    Args:
        traces: of the cell.
        ticks: the arm's in the cell.
        limit: from the manifest; None where nothing is known.
    """
    if limit is None:
        return unavailable(UNKNOWN, "1")
    decode = [tick for tick in ticks if tick.kind is TickKind.DECODE]
    taken = sum(tick.end_ns - tick.start_ns for tick in decode)
    if not taken:
        return unavailable(NO_TICKS, "1")
    keys = sum(map(_tokens_read, traces)) * limit.reads.kv_per_token
    read = len(decode) * limit.reads.weights + keys
    return Quantity(read / limit.bandwidth / (taken / NS_PER_S), "1", n=len(decode))


def _tokens_read(trace: Trace) -> int:
    """Tokens of context over all steps: the prompt and what was committed before each."""
    total, context = 0, trace.prompt_tokens
    for committed in trace.steps.committed:
        total += context
        context += committed
    return total
