"""Times and token counts of one trace, each defined once; all other metrics build on these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.core.trace import Trace

NS_PER_MS = 1e6
NS_PER_S = 1e9


def finished(traces: Iterable[Trace]) -> list[Trace]:
    """Requests that ended by themselves; failed and skipped ones never enter an average."""
    return [trace for trace in traces if trace.ok]


def output_tokens(trace: Trace) -> int:
    """N, the output tokens: the engine's ids where they are known, else the counted arrivals.

    One counter for every arm. Text is never re-tokenised (cases D5, D12).
    """
    return len(trace.output_ids) or sum(trace.arrivals.tokens)


def token_arrivals(trace: Trace) -> list[tuple[int, int]]:
    """(time in ns, tokens) of the arrivals that carry tokens."""
    rows = zip(trace.arrivals.t_ns, trace.arrivals.tokens, strict=True)
    return [(t_ns, tokens) for t_ns, tokens in rows if tokens > 0]


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
    return sum(end - start for start, end in merged(intervals))


def busy(traces: Sequence[Trace]) -> list[tuple[int, int]]:
    """The stretches in which at least one of these requests was in flight.

    Their length is the makespan (largest end minus smallest start) of a batch that ran without a
    pause. Pauses, in which interleaving gave the machine to another arm, do not count.
    """
    ends = ((trace.start_ns, end_ns(trace)) for trace in traces)
    return merged((start, end) for start, end in ends if end is not None)
