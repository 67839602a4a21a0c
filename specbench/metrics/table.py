"""All metrics of one cell of the results table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from specbench.core.arm import PLAIN, ArmMemory
from specbench.core.limit import Limit
from specbench.core.quantity import Missing, Quantity, nothing
from specbench.core.step_costs import ArmCosts
from specbench.core.trace import Finish, Tick, Trace, Window
from specbench.metrics import acceptance, alpha, latency, phases, speedup, tallies, throughput
from specbench.metrics.degenerate import degenerate_share, sound_keys
from specbench.metrics.identities import require_valid
from specbench.metrics.limit import limit_share
from specbench.metrics.memory import memory as memory_rows
from specbench.metrics.predicted import UNCALIBRATED, predicted_speedup, prediction_error
from specbench.metrics.totals import Totals, not_split, totals_of
from specbench.metrics.units import Pair, only, pairs

Row = dict[str, Quantity]

VALUE = "value"
SOUND = "nondegenerate"
"""Stat of a figure without the requests on which plain's output is degenerate."""

_POOLED = {
    "accept_length": acceptance.accept_length,
    "accept_length_drafted": acceptance.accept_length_drafted,
    "draft_coverage": acceptance.draft_coverage,
    "accept_length_uncut": acceptance.accept_length_uncut,
    "accept_length_macro": acceptance.accept_length_macro,
    "accepted_mean": acceptance.accepted_mean,
    "accept_rate": acceptance.accept_rate,
    "rate_depth": acceptance.rate_depth,
    "rate_node": acceptance.rate_node,
    "waste": acceptance.waste,
    "drafted_per_token": acceptance.drafted_per_token,
    "outside_draft": acceptance.outside_draft,
    "alpha": alpha.alpha,
    "alpha_iid": alpha.alpha_iid,
    "tokens_per_s_user": throughput.tokens_per_s_user,
    "tokens_per_s_e2e": throughput.tokens_per_s_e2e,
}
_PLAIN_ITSELF = "plain is the reference of every speed-up"
_NO_PLAIN = "this run has no plain arm"


def measure_cell(
    traces_of_arm: Sequence[Trace],
    traces_of_plain: Sequence[Trace],
    ticks: Sequence[Tick],
    memory: ArmMemory | None,
    *,
    seed: int,
    windows: Sequence[Window] = (),
    k: int | None = None,
    costs: ArmCosts | Missing = UNCALIBRATED,
    limit: Limit | None = None,
) -> dict[str, Row]:
    """Metric -> stat -> quantity for one suite x temperature x concurrency x arm.

    Metric names are the keys of ``definitions.DEFINITIONS``. Stats are ``value`` for a single
    number; ``mean``, ``p50``, ``p90``, ``p99`` for latencies; ``nondegenerate`` beside ``value``
    for accept_length, accept_rate and speedups; ``detectable`` for the smallest relative speed
    difference the run could show; ``e2e`` for the error against speedup_e2e; names of positions,
    phases, memory fields and parts of the prediction elsewhere. For a category or another slice,
    pass the traces of the slice.

    Args:
        traces_of_arm: every trace of the arm in this cell, failed ones included.
        traces_of_plain: every trace of plain in the same cell; empty where there is none; may be
            the same records where the arm is plain.
        ticks: the arm's ticks in this cell; empty for engines that cannot see them.
        memory: what the arm holds; None where the engine cannot tell.
        seed: seed of all resampling; the same seed gives the same intervals.
        windows: counter windows of the arm in this cell, for engines that show no steps.
        k: the arm's longest draft; None where no arm was configured: then it bounds nothing.
        costs: of the arm's decode steps, timed before the run, or why there are none.
        limit: what memory allows the target; None where that is not known.

    Raises:
        UsageError: a trace breaks an identity (``identities``); the message names the item.
    """
    require_valid(traces_of_arm, ticks, k_max=k)
    require_valid(traces_of_plain)
    joined = pairs(traces_of_arm, traces_of_plain)
    table = {name: {VALUE: metric(traces_of_arm, seed=seed)} for name, metric in _POOLED.items()}
    table |= _singles(traces_of_arm, traces_of_plain, ticks)
    table["accept_pos"] = acceptance.accept_pos(traces_of_arm)
    _add_totals(table, totals_of(traces_of_arm, windows), seed)
    table["phases"] = phases.phases(ticks)
    table["limit_share"] = {VALUE: limit_share(traces_of_arm, ticks, limit)}
    table["memory"] = memory_rows(memory)
    table["requests"] = _requests(traces_of_arm, joined)
    table |= _latencies(traces_of_arm, seed)
    table |= _against_plain(traces_of_arm, traces_of_plain, joined, costs, seed)
    _add_sound(table, traces_of_arm, traces_of_plain, joined, windows, seed)
    return table


def _add_totals(table: dict[str, Row], found: Totals | Quantity | None, seed: int) -> None:
    """Where an engine shows no steps, what its totals support takes the place of "unknown"."""
    if found is None:
        return
    table |= {name: {VALUE: quantity} for name, quantity in tallies.rows(found, seed=seed).items()}
    table["k_effective"] = {VALUE: tallies.k_effective(found)}
    table["accept_pos"] = tallies.accept_pos(found)


def _singles(arm: Sequence[Trace], plain: Sequence[Trace], ticks: Sequence[Tick]) -> dict[str, Row]:
    found = {
        "k_effective": acceptance.k_effective(arm),
        "tokens_outside_steps": acceptance.tokens_outside_steps(arm),
        "first_request": latency.first_request(arm),
        "tokens_per_s_device": throughput.tokens_per_s_device(arm),
        "tokens_per_s_peak": throughput.tokens_per_s_peak(arm),
        "span_coverage": phases.span_coverage(ticks),
        "host_share": phases.host_share(ticks),
        "hidden_share": phases.hidden_share(ticks),
        "graph_share": phases.graph_share(ticks),
        "degenerate_share": degenerate_share(plain),
    }
    return {name: {VALUE: quantity} for name, quantity in found.items()}


def _add_sound(
    table: dict[str, Row],
    arm: Sequence[Trace],
    plain: Sequence[Trace],
    joined: Sequence[Pair],
    windows: Sequence[Window],
    seed: int,
) -> None:
    """Put ``nondegenerate`` beside ``value``: the same figure on the requests that do not loop."""
    keys = sound_keys(plain)
    traces, kept = only(arm, keys), [pair for pair in joined if pair.arm.key in keys]
    split = windows if len(traces) == len(arm) else not_split(windows, "request")
    figures: dict[str, Callable[[], Quantity]] = {
        "accept_length": lambda: _of_slice(traces, "accept_length", split, seed),
        "accept_rate": lambda: _of_slice(traces, "accept_rate", split, seed),
        "speedup": lambda: speedup.speedup(kept, seed=seed),
        "speedup_e2e": lambda: speedup.speedup_e2e(kept, seed=seed),
    }
    share = table["degenerate_share"][VALUE]
    for name, figure in figures.items():
        whole = table[name][VALUE]
        if not whole.known:
            table[name][SOUND] = whole
        elif not share.known:
            table[name][SOUND] = replace(share, unit=whole.unit)
        else:
            table[name][SOUND] = figure()


def _of_slice(traces: Sequence[Trace], name: str, windows: Sequence[Window], seed: int) -> Quantity:
    """An acceptance metric of some of the cell's requests."""
    found = totals_of(traces, windows)
    if found is None:
        return _POOLED[name](traces, seed=seed)
    return tallies.rows(found, seed=seed)[name]


def _latencies(traces: Sequence[Trace], seed: int) -> dict[str, Row]:
    table = {
        name: latency.per_request(traces, metric, seed=seed)
        for name, metric in {
            "ttft": latency.ttft,
            "ttfo": latency.ttfo,
            "tpot": latency.tpot,
            "latency_e2e": latency.latency_e2e,
            "decode_time": latency.decode_time,
        }.items()
    }
    table["itl"] = latency.per_gap(traces, per_token=True, seed=seed)
    table["itl_chunk"] = latency.per_gap(traces, per_token=False, seed=seed)
    return table


def _against_plain(
    arm: Sequence[Trace],
    plain: Sequence[Trace],
    joined: Sequence[Pair],
    costs: ArmCosts | Missing,
    seed: int,
) -> dict[str, Row]:
    """Paired metrics, or why plain cannot be the other half of the pair."""
    itself = any(trace.arm == PLAIN for trace in arm)
    if itself or not plain:
        reason = _PLAIN_ITSELF if itself else _NO_PLAIN
        ratio, share = nothing(reason, "x"), nothing(reason, "1")
        return {
            "speedup": {VALUE: ratio, "detectable": share},
            "speedup_e2e": {VALUE: ratio},
            "predicted_speedup": {VALUE: ratio},
            "prediction_error": dict.fromkeys([VALUE, "e2e"], share),
            "ttft_overhead": dict.fromkeys(["mean", *latency.QUANTILES], nothing(reason, "ms")),
        }
    decode, whole = speedup.speedup(joined, seed=seed), speedup.speedup_e2e(joined, seed=seed)
    predicted = predicted_speedup(joined, costs, seed=seed)
    return {
        "speedup": {VALUE: decode, "detectable": speedup.detectable(joined, seed=seed)},
        "speedup_e2e": {VALUE: whole},
        "predicted_speedup": predicted,
        "prediction_error": prediction_error(predicted[VALUE], {VALUE: decode, "e2e": whole}),
        "ttft_overhead": latency.ttft_overhead(joined, seed=seed),
    }


def _requests(traces: Sequence[Trace], joined: Sequence[Pair]) -> Row:
    ok = sum(trace.ok for trace in traces)
    skipped = sum(trace.finish is Finish.SKIPPED for trace in traces)
    counts = {
        "ok": ok,
        "failed": len(traces) - ok - skipped,
        "skipped": skipped,
        "paired": len(joined),
    }
    return {name: Quantity(float(count), "requests") for name, count in counts.items()}
