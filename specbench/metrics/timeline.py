"""Times and token counts of one trace, each defined once; all other metrics build on these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from specbench.core.trace import Counted, Granularity, Trace

NS_PER_MS = 1e6
NS_PER_S = 1e9


def finished(traces: Iterable[Trace]) -> list[Trace]:
    """Requests that ended by themselves; failed and skipped ones never enter an average."""
    return [trace for trace in traces if trace.ok]


def output_tokens(trace: Trace) -> int:
    """N, the output tokens, end token included: the engine's ids, else the counted arrivals.

    An end token that was counted without its id belongs to them (``Trace.hidden_end``). Ids count
    only where the engine gave them: ids made from text are another counter (cases D5, D12).
    """
    if trace.counted is Counted.IDS and trace.output_ids:
        return len(trace.output_ids) + trace.hidden_end
    return sum(trace.arrivals.tokens)


def token_arrivals(trace: Trace) -> list[tuple[int, int]]:
    """(time in ns, tokens) of the arrivals that carry tokens."""
    rows = zip(trace.arrivals.t_ns, trace.arrivals.tokens, strict=True)
    return [(t_ns, tokens) for t_ns, tokens in rows if tokens > 0]


def step_arrivals(trace: Trace) -> list[tuple[int, int]]:
    """(time in ns, tokens) by decode step, the tokens that no step committed first.

    A server may show the tokens of one step one after the other; their gaps say how it writes and
    not how fast it decodes. Where steps are known, arrivals are joined until a step is complete and
    get the time of the last of them. An arrival of several steps stays whole.
    """
    rows = token_arrivals(trace)
    if trace.granularity is not Granularity.STEP or not len(trace.steps):
        return rows
    outside = output_tokens(trace) - sum(trace.steps.committed)
    ends = list(accumulate(trace.steps.committed, initial=outside))
    joined: list[tuple[int, int]] = []
    seen = waiting = passed = 0
    for t_ns, tokens in rows:
        seen, waiting = seen + tokens, waiting + tokens
        if passed < len(ends) and seen < ends[passed]:
            continue
        joined.append((t_ns, waiting))
        waiting = 0
        while passed < len(ends) and ends[passed] <= seen:
            passed += 1
    if waiting:
        joined.append((rows[-1][0], waiting))
    return joined


def end_ns(trace: Trace) -> int | None:
    """Time of the last token; of the last arrival where a request produced no token at all."""
    rows = token_arrivals(trace)
    if rows:
        return rows[-1][0]
    return trace.arrivals.t_ns[-1] if trace.arrivals.t_ns else None


def decode_ns(trace: Trace) -> int:
    """Decode time: last token minus first token; 0 where one arrival brought everything."""
    rows = token_arrivals(trace)
    return rows[-1][0] - rows[0][0] if rows else 0


def decode_tokens(trace: Trace) -> int:
    """Tokens that the decode time bought: N minus those of the first arrival."""
    rows = token_arrivals(trace)
    return output_tokens(trace) - rows[0][1] if rows else 0


def merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Union of intervals as disjoint ones in order; what overlaps is counted once."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def length(intervals: Iterable[tuple[int, int]]) -> int:
    """Total length of the union of intervals."""
    total, seen = 0, None
    for start, end in sorted(intervals):
        if seen is None or start >= seen:
            total += end - start
            seen = end
        elif end > seen:
            total += end - seen
            seen = end
    return total


def busy(traces: Sequence[Trace]) -> list[tuple[int, int]]:
    """The stretches in which at least one of these requests was in flight.

    Their length is the makespan (largest end minus smallest start) of a batch that ran without a
    pause. Pauses, in which interleaving gave the machine to another arm, do not count.
    """
    ends = ((trace.start_ns, end_ns(trace)) for trace in traces)
    return merged((start, end) for start, end in ends if end is not None)
