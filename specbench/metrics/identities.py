"""Identities that every trace must satisfy, whatever was measured (METRICS, "asserted").

A violation means that the record is wrong, not that the arm is slow: nothing is computed from it.
Totals that a server tells beside its answer are judged apart (``tally_violations``): where they
contradict each other they count as untold, and tokens and times stay good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import pairwise

from specbench.core.trace import Cut, Granularity, Steps, Tally, Tick, Trace
from specbench.errors import UsageError
from specbench.metrics.throughput import tokens_by_second
from specbench.metrics.timeline import finished, output_tokens

SHOWN = 3


def violations(trace: Trace, *, k_max: int | None = None) -> list[str]:
    """Every identity that this trace breaks, each naming the request and the numbers.

    Args:
        trace: one record.
        k_max: the configured longest path of a draft, where known.
    """
    found = _uneven(trace)
    if not found:
        found = [*_step_order(trace, k_max), *_token_sums(trace), *_times(trace)]
        found += _evidence(trace)
    key = trace.key
    where = f"{key.suite}/{key.item} turn {key.turn} repeat {key.repeat}, arm {trace.arm}"
    return [f"{where}: {text}" for text in found]


def cell_violations(traces: Sequence[Trace], *, k_max: int | None = None) -> list[str]:
    """Violations of all traces of one arm, and of the identities that join them."""
    found = [text for trace in traces for text in violations(trace, k_max=k_max)]
    times = Counter((trace.key, trace.concurrency) for trace in traces)
    found += [
        f"{key.suite}/{key.item} turn {key.turn} repeat {key.repeat}: recorded {count} times"
        for (key, _), count in times.items()
        if count > 1
    ]
    if not found:
        seconds, total = tokens_by_second(traces), sum(map(_arrived, finished(traces)))
        if seconds and max(seconds) * len(seconds) < total:
            found.append(f"peak {max(seconds)} tokens/s is below the mean over {len(seconds)} s")
    return found


def tick_violations(ticks: Sequence[Tick]) -> list[str]:
    """Ticks that end before they start, and spans that leave their tick."""
    found = []
    for tick in ticks:
        if tick.end_ns < tick.start_ns:
            found.append(f"tick {tick.index}: ends before it starts")
        found += [
            f"tick {tick.index}: span {span.phase} is outside the tick or runs backwards"
            for span in tick.spans
            if not tick.start_ns <= span.start_ns <= span.end_ns <= tick.end_ns
        ]
    return found


def require_valid(
    traces: Sequence[Trace], ticks: Sequence[Tick] = (), *, k_max: int | None = None
) -> None:
    """Raise ``UsageError`` naming the first broken records, if there are any."""
    found = cell_violations(traces, k_max=k_max) + tick_violations(ticks)
    if found:
        more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        raise UsageError(
            "broken trace: " + "; ".join(found[:SHOWN]) + more,
            "the engine miscounted or the file was changed; measure these items again",
        )


def _uneven(trace: Trace) -> list[str]:
    found = []
    for name in ("steps", "arrivals", "evidence"):
        record = getattr(trace, name)
        sizes = {field.name: len(getattr(record, field.name)) for field in fields(record)}
        if sizes.get("depth") == 0:  # all drafts are chains
            del sizes["depth"]
        if len(set(sizes.values())) > 1:
            found.append(f"columns of {name} differ in length: {sizes}")
    return found


def _step_order(trace: Trace, k_max: int | None) -> Iterator[str]:
    steps = trace.steps
    last = len(steps) - 1
    for index in range(len(steps)):
        for counts in _ordered(steps, index, k_max):
            for (low_name, low), (high_name, high) in pairwise(counts):
                if low > high:
                    yield f"{low_name} {low} > {high_name} {high} at step {index}"
        accepted, committed = steps.accepted[index], steps.committed[index]
        cut = steps.cut[index]
        if not 1 <= committed <= accepted + 1:
            yield f"committed {committed} with accepted {accepted} at step {index}"
        if cut == Cut.NONE and committed != accepted + 1:
            yield f"committed {committed}, not accepted + 1 = {accepted + 1}, at uncut step {index}"
        if cut != Cut.NONE and index != last:
            yield f"step {index} was cut ({cut}) but is not the last"
    by_position = sum(
        sum(accepted >= k for accepted in steps.accepted)
        for k in range(1, max(steps.judged, default=0) + 1)
    )
    if by_position != sum(steps.accepted):
        yield f"accept counts sum to {by_position}, accepted to {sum(steps.accepted)}"


def _ordered(steps: Steps, index: int, k_max: int | None) -> list[list[tuple[str, int]]]:
    """Counts of a step that may not fall; K bounds the nodes of a chain, the paths of a tree."""
    path = [("0", 0), ("accepted", steps.accepted[index])]
    sent = [
        ("judged", steps.judged[index]),
        ("verified", steps.verified[index]),
        ("proposed", steps.proposed[index]),
    ]
    limit = [] if k_max is None else [("K", k_max)]
    if not steps.depth:
        return [path + sent + limit]
    path.append(("depth", steps.depth[index]))
    return [path + sent, path + limit]


def _token_sums(trace: Trace) -> Iterator[str]:
    if not trace.ok:
        return
    total, arrived = output_tokens(trace), _arrived(trace)
    if arrived != total:
        yield f"{total} output tokens but {arrived} in the arrivals"
    if trace.granularity is Granularity.STEP:
        # An engine that verifies a draft with the prefill gets several tokens from it.
        first = trace.arrivals.tokens[0] if trace.arrivals.tokens else 0
        committed = sum(trace.steps.committed)
        if committed not in (max(total - 1, 0), total - first):
            yield f"{committed} committed tokens, not N - 1 = {max(total - 1, 0)}"


def _times(trace: Trace) -> Iterator[str]:
    times = [trace.start_ns, *trace.arrivals.t_ns]
    if any(later < earlier for earlier, later in pairwise(times)):
        yield "times run backwards"
    if trace.sent_ns is not None and trace.sent_ns < trace.start_ns:
        yield "sent before it was due"
    tokens = trace.arrivals.tokens
    # One empty arrival marks the end of a request that produced nothing.
    if min(tokens, default=1) < 1 and tokens != [0]:
        yield "an arrival without tokens"


def _evidence(trace: Trace) -> Iterator[str]:
    evidence = trace.evidence
    positions = evidence.position
    if any(later <= earlier for earlier, later in pairwise(positions)):
        yield "evidence positions do not increase"
    if positions and not 0 <= positions[0] <= positions[-1] < output_tokens(trace):
        yield f"evidence at position {positions[-1]} of {output_tokens(trace)} tokens"
    # Probabilities are float32 sums over a vocabulary; 1e-3 is far above their rounding.
    if any(not -1e-3 <= overlap <= 1 + 1e-3 for overlap in evidence.overlap if overlap is not None):
        yield "overlap outside 0 .. 1"


def tally_violations(tally: Tally) -> Iterator[str]:
    """Totals of an engine without steps that contradict each other; unknown ones break nothing."""
    ordered = (
        ("accepted", tally.accepted, "verified", tally.verified),
        ("steps with a draft", tally.drafted_steps, "steps", tally.steps),
        ("steps", tally.steps, "committed", tally.committed),
    )
    for low_name, low, high_name, high in ordered:
        if low is not None and high is not None and low > high:
            yield f"{low_name} {low} > {high_name} {high} in the totals of {tally.source}"
    if any(deeper > nearer for nearer, deeper in pairwise(tally.accepted_at)):
        yield f"accepted_at rises with the position: {tally.accepted_at}"


def _arrived(trace: Trace) -> int:
    return sum(trace.arrivals.tokens)
