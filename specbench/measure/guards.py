"""Reasons to distrust a run: pure functions of its traces and quantities.

A guard does not stop anything. The cell is written, carries the guard's code, is not ranked, and
the reader learns what to do next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from specbench.core.quantity import Quantity
from specbench.core.request import GREEDY_BELOW, RequestKey
from specbench.core.trace import Finish, Granularity, Trace
from specbench.fidelity.repeats import sampling_inactive
from specbench.metrics.degenerate import CELL_LIMIT
from specbench.metrics.latency import ttft
from specbench.metrics.timeline import finished, output_tokens
from specbench.metrics.units import Pair, item_sums, pairs, time_labels
from specbench.stats.bootstrap import ratio_interval
from specbench.stats.quantile import weighted_quantile

Cell = Mapping[str, Mapping[str, Quantity]]

INERT_DRAFTED = 50
FULL_ROUNDS = 100
OUTLIER = 10.0
"""A TTFT above this many medians is a compilation or a stall, not a long prompt."""
FEWEST_FOR_OUTLIER = 4
FEWEST_UNITS_FOR_ORDER = 8
"""With random order one arm leads every one of 8 units in 1 of 128 runs only."""
FEWEST_EQUAL_REPEATS = 3
SPAN_COVERAGE = 0.98
FEWEST_DISTINCT = 0.01
"""Distinct over all prompt tokens; suites of real text stay well above it."""
UNPAIRED_DRIFT = 0.05
"""Relative change of accept length that counts where too few items allow no interval."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One reason: a stable code for files, what was seen, and what to do next."""

    code: str
    text: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}; {self.next_step}"


def cell_guards(
    arm: Sequence[Trace],
    plain: Sequence[Trace],
    table: Cell,
    *,
    draft_is_target: bool = False,
) -> list[Guard]:
    """All guards of one cell.

    Args:
        arm, plain: the traces that ``table`` was measured from.
        table: the result of ``metrics.table.measure_cell``.
        draft_is_target: the draft has the target's weights, so that full acceptance is expected.
    """
    joined = [pair for pair in pairs(arm, plain) if pair.arm.arm != pair.plain.arm]
    return [
        *_failures(arm),
        *_counters(arm, draft_is_target),
        *_too_fast(arm, table),
        *_lengths(joined),
        *_interleaving(arm, plain, joined),
        *_outliers(arm),
        *_sampling(arm),
        *_from_table(table),
    ]


def concurrency_guard(by_concurrency: Mapping[int, Sequence[Trace]], *, seed: int) -> list[Guard]:
    """Acceptance must not depend on who shares the batch (case A10).

    Compares accept length at each concurrency with that at the lowest, on the same requests: the
    paired interval must contain 1, or, with too few items for an interval, the ratio must be
    within 5 %.
    """
    if len(by_concurrency) < 2:
        return []
    lowest = min(by_concurrency)
    found = []
    for level in sorted(set(by_concurrency) - {lowest}):
        ratio = _accept_length_ratio(by_concurrency[level], by_concurrency[lowest], seed)
        if ratio is None or not ratio.known:
            continue
        if ratio.low is not None and ratio.high is not None:
            drifted = not ratio.low <= 1.0 <= ratio.high
        else:
            drifted = abs(ratio.number() - 1.0) > UNPAIRED_DRIFT
        if drifted:
            found.append(
                Guard(
                    "acceptance_by_concurrency",
                    "acceptance depends on concurrency: accept length at "
                    f"{level} is {ratio.number():.3f} of that at {lowest}",
                    "check positions and padding of rows that accept different lengths",
                )
            )
    return found


def prompt_guards(prompts: Sequence[Sequence[int]]) -> list[Guard]:
    """Filler repeated over and over is drafted better than any real text (case D15).

    Args:
        prompts: token ids of every prompt of a suite.
    """
    total = sum(map(len, prompts))
    distinct = len({token for prompt in prompts for token in prompt})
    if not total or distinct / total >= FEWEST_DISTINCT:
        return []
    return [
        Guard(
            "repetitive_prompts",
            f"{distinct} distinct tokens in {total} prompt tokens ({distinct / total:.4f})",
            "use real text; acceptance on filler says nothing about it",
        )
    ]


def _accept_length_ratio(high: Sequence[Trace], low: Sequence[Trace], seed: int) -> Quantity | None:
    """Accept length of one concurrency over another on the requests that both finished."""
    by_key = {trace.key: trace for trace in finished(low) if len(trace.steps)}
    kept = [trace for trace in finished(high) if trace.key in by_key and len(trace.steps)]
    if not kept:
        return None
    others = [by_key[trace.key] for trace in kept]
    return ratio_interval(
        item_sums(kept, lambda trace: sum(trace.steps.committed)),
        item_sums(kept, lambda trace: len(trace.steps)),
        item_sums(others, lambda trace: sum(trace.steps.committed)),
        item_sums(others, lambda trace: len(trace.steps)),
        seed=seed,
    )


def _failures(arm: Sequence[Trace]) -> Iterator[Guard]:
    failed = [trace for trace in arm if trace.finish in (Finish.ERROR, Finish.OOM)]
    if failed:
        first = failed[0]
        yield Guard(
            "failures",
            f"{len(failed)} of {len(arm)} requests failed, first {first.key.item}: "
            f"{first.error or first.finish}",
            "fix the cause and resume; a run with failures is incomplete",
        )


def _counters(arm: Sequence[Trace], draft_is_target: bool) -> Iterator[Guard]:
    kept = [trace for trace in finished(arm) if trace.granularity is Granularity.STEP]
    drafted = sum(sum(trace.steps.verified) for trace in kept)
    judged = sum(sum(trace.steps.judged) for trace in kept)
    accepted = sum(sum(trace.steps.accepted) for trace in kept)
    rounds = sum(judged > 0 for trace in kept for judged in trace.steps.judged)
    if accepted == 0 and drafted >= INERT_DRAFTED:
        yield Guard(
            "draft_inert",
            f"0 of {drafted} drafted tokens were accepted",
            "check the draft's weights, quantisation and vocabulary map",
        )
    if accepted == judged and rounds >= FULL_ROUNDS and not draft_is_target:
        yield Guard(
            "suspicious_full",
            f"all {judged} judged tokens of {rounds} drafted steps were accepted",
            "check the counter, and that the draft is not the target",
        )


def _too_fast(arm: Sequence[Trace], table: Cell) -> Iterator[Guard]:
    """A step costs at least a plain step, so time cannot shrink by more than the accept length.

    Noise may lift the point above it, hence the lower bound decides where there is an interval.
    """
    speedup = table["speedup"]["value"]
    length = table["accept_length"]["value"]
    if not (speedup.known and length.known) or any(trace.concurrency != 1 for trace in arm):
        return
    floor = speedup.number() if speedup.low is None else min(speedup.low, speedup.number())
    if floor > length.number():
        yield Guard(
            "speedup_above_accept_length",
            f"speedup {speedup.number():.3f} exceeds accept length {length.number():.3f}",
            "look for a slower plain arm: no graphs or compilation, a cold cache, another build",
        )


def _lengths(joined: Sequence[Pair]) -> Iterator[Guard]:
    greedy = [pair for pair in joined if pair.arm.key.temperature < GREEDY_BELOW]
    differing = [pair for pair in greedy if output_tokens(pair.arm) != output_tokens(pair.plain)]
    if differing:
        first = differing[0]
        yield Guard(
            "output_lengths_differ",
            f"output lengths differ on {len(differing)} of {len(greedy)} greedy requests, first "
            f"{first.arm.key.item}: {output_tokens(first.arm)} against plain's "
            f"{output_tokens(first.plain)}",
            "look at the fidelity column: a tie, a missed stop or a second token counter",
        )


def _interleaving(
    arm: Sequence[Trace], plain: Sequence[Trace], joined: Sequence[Pair]
) -> Iterator[Guard]:
    """One arm always first sees a cooler machine or pays for warming it up."""
    if plain and not joined and any(trace.arm != plain[0].arm for trace in arm):
        yield Guard(
            "unpaired",
            "no request was finished by both arms",
            "measure plain and the arm on the same items",
        )
    labels = time_labels([pair.arm for pair in joined])
    leads = {
        label: pair.arm.order - pair.plain.order for label, pair in zip(labels, joined, strict=True)
    }
    apart = any(pair.arm.unit != pair.plain.unit for pair in joined)
    same = any(lead == 0 for lead in leads.values())
    one_side = len({lead > 0 for lead in leads.values()}) == 1
    if apart or same or (one_side and len(leads) >= FEWEST_UNITS_FOR_ORDER):
        yield Guard(
            "not_interleaved",
            "arms were not interleaved: one always ran first, or not in the same unit",
            "run the arms in one experiment, which alternates them",
        )
    split = sum(pair.arm.resumed != pair.plain.resumed for pair in joined)
    if split:
        yield Guard(
            "split_by_resume",
            f"{split} of {len(joined)} pairs were measured on both sides of a resume",
            "compare counts freely, but measure the speed again without interruption",
        )


def _outliers(arm: Sequence[Trace]) -> Iterator[Guard]:
    kept = sorted(finished(arm), key=lambda trace: trace.start_ns)
    timed = [(trace, found.number()) for trace in kept if (found := ttft(trace)).known]
    if len(timed) < FEWEST_FOR_OUTLIER:
        return
    values = [value for _, value in timed]
    median = weighted_quantile(values, [1.0] * len(values), 0.5)
    if values[0] > OUTLIER * median:
        yield Guard(
            "first_request_slow",
            f"first request: ttft {values[0]:.1f} ms against a median of {median:.1f} ms",
            "warm up with the measured shapes; it probably paid for a compilation",
        )
    slow = [trace for trace, value in timed[1:] if value > OUTLIER * median]
    if slow:
        yield Guard(
            "ttft_outlier",
            f"{len(slow)} later requests with ttft above {OUTLIER:g} medians, first "
            f"{slow[0].key.item}",
            "look for a shape that was not warmed up, or for another process",
        )


_CHECK_SAMPLER = "check that temperature and seed reach the sampler"


def _sampling(arm: Sequence[Trace]) -> Iterator[Guard]:
    """Repeats of one prompt at temperature > 0 that never differ: something takes the argmax.

    Where the target's probabilities are recorded they say whether equal repeats are possible;
    for other engines a number of them is enough.
    """
    if any(value is not None for trace in arm for value in trace.evidence.log_target):
        reason = sampling_inactive(arm)
        if reason:
            yield Guard("sampling_inactive", reason, _CHECK_SAMPLER)
        return
    outputs: dict[RequestKey, list[tuple[int, ...] | str]] = defaultdict(list)
    for trace in finished(arm):
        key = trace.key
        if key.temperature >= GREEDY_BELOW:
            prompt = RequestKey(key.suite, key.item, key.turn, key.temperature, 0)
            outputs[prompt].append(tuple(trace.output_ids) or trace.text)
    extra = sum(len(group) - 1 for group in outputs.values())
    if extra >= FEWEST_EQUAL_REPEATS and all(len(set(group)) == 1 for group in outputs.values()):
        yield Guard(
            "sampling_inactive",
            f"sampling inactive: {extra} repeats at temperature > 0, all equal to the first",
            _CHECK_SAMPLER,
        )


def _from_table(table: Cell) -> Iterator[Guard]:
    share = table["degenerate_share"]["value"]
    if share.known and share.number() > CELL_LIMIT:
        yield Guard(
            "degenerate",
            f"{share.number():.0%} of plain's outputs repeat themselves",
            "read the figures on non-degenerate items; use other prompts or a larger target",
        )
    covered = table["span_coverage"]["value"]
    if covered.known and covered.number() < SPAN_COVERAGE:
        yield Guard(
            "time_unattributed",
            f"spans cover {covered.number():.1%} of the ticks, {SPAN_COVERAGE:.0%} are needed",
            "do not read the phases; look for work between the spans",
        )
