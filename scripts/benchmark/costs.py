"""What the engine itself costs: wider forwards, work outside of them, evidence, batches."""

from __future__ import annotations

import statistics
import time

import torch

from specbench.core.request import Sampling
from specbench.core.trace import TickKind
from specbench.engines.native import NativeEngine
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import Segment, pack

from .setting import (
    ROUNDS,
    at,
    decode,
    decode_ticks,
    requests,
    say,
    seconds,
    share,
)

EVIDENCE_SETTINGS = {
    "ngram, rejection": ("ngram", 1.0),
    "ngram, rejection, top_p=0.95": ("ngram", 0.95),
    "layer_skip, rejection": ("layer_skip", 1.0),
    "ngram, typical": ("typical", 1.0),
}
"""What evidence is measured on at T = 0.7: one-hot and dense drafts, truncation, a lossy rule."""
WIDTHS = (1, 2, 4, 8, 16)
CONCURRENCIES = (1, 4, 8, 16)
CONTEXT = 256


def verify_cost(engine: NativeEngine) -> dict[str, float]:
    """v(n): forward of n rows over forward of 1 row, behind a context of 256 tokens."""
    say("verify cost")
    model = engine.packed_model
    before = model.pool
    pool = KVPool(1, CONTEXT + max(WIDTHS), torch.float32, torch.device("cpu"))
    pool.add_owner(model.owner, model.geometry())
    model.use(pool)
    times: dict[int, list[float]] = {n: [] for n in WIDTHS}
    for _ in range(4 * ROUNDS + 2):
        for n in WIDTHS:
            batch = pack([Segment(0, CONTEXT, n)], torch.arange(100, 100 + n), "all")
            start = time.perf_counter()
            model.forward(batch)
            times[n].append(time.perf_counter() - start)
    model.use(before)
    # The first two rounds warm the shapes up.
    medians = {n: statistics.median(values[2:]) for n, values in times.items()}
    return {str(n): medians[n] / medians[1] for n in WIDTHS} | {"ms_1": medians[1] * 1e3}


def host_shares(engine: NativeEngine) -> dict[str, float]:
    """Share of decode ticks outside the verify forward, for the n-gram arm at both temperatures."""
    say("host share")
    shares = {}
    for temperature, top_p in ((0.0, 1.0), (0.7, 1.0), (0.7, 0.95)):
        asked = requests(engine, ("code", "chat"), 2, 48, temperature)
        ticks = decode_ticks(engine, "ngram", at(asked, Sampling(temperature, top_p=top_p)))
        name = f"T={temperature:g}" + ("" if top_p == 1 else f" top_p={top_p:g}")
        shares[name] = 1 - share(ticks, {"verify"})
    return shares


def evidence_shares(engine: NativeEngine) -> dict[str, float]:
    """Share of decode time that collecting fidelity evidence takes, at T = 0.7."""
    say("evidence")
    shares = {}
    for name, (arm, top_p) in EVIDENCE_SETTINGS.items():
        asked = requests(engine, ("code", "chat"), 2, 48, 0.7)
        ticks = decode_ticks(engine, arm, at(asked, Sampling(0.7, top_p=top_p)))
        shares[name] = share(ticks, {"evidence"})
    return shares


def batch_scaling(engine: NativeEngine) -> dict[str, float]:
    """Decode tokens per second of the device at each concurrency, over that at 1 (plain arm)."""
    say("batch scaling")
    asked = requests(engine, ("code", "chat", "translation"), 6, 32, 0.0)[:16]
    rates: dict[int, list[float]] = {c: [] for c in CONCURRENCIES}
    for _ in range(3):
        for c in CONCURRENCIES:
            # 16 requests fill every concurrency evenly, so no tick runs half empty for long.
            traces = decode(engine, "plain", asked[: max(c, 4)], c)
            ticks = [t for t in engine.drain_ticks() if t.kind is TickKind.DECODE]
            spent = sum(seconds(t) for t in ticks)
            rates[c].append(sum(sum(t.steps.committed) for t in traces) / spent)
    medians = {c: statistics.median(values) for c, values in rates.items()}
    return {str(c): medians[c] / medians[1] for c in CONCURRENCIES} | {"tokens_per_s_1": medians[1]}
