"""Measure the native engine against transformers and against its own costs; see scripts/bench.

All ratios come from one run: contenders alternate within each round, and the median over rounds is
taken. Prompts are test prompts of the shipped suites; items whose plain output loops are left out.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click
import torch

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.core.trace import Tick, TickKind, Trace
from specbench.engines.native import NativeEngine, open_engine
from specbench.metrics.degenerate import is_degenerate
from specbench.models.kv_pool import KVPool
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.models.packed_batch import Segment, pack
from specbench.suites.loader import load_suite, select
from specbench.suites.templates import messages_for_turn

MODEL = "smollm2-135m-instruct"
TARGET = {"model": MODEL, "dtype": "float32", "device": "cpu"}
ARMS = [
    ArmSpec("plain"),
    ArmSpec("ngram", "ngram", 5),
    ArmSpec("layer_skip", "layer_skip", 3),
    ArmSpec("typical", "ngram", 5, "typical"),
]
EVIDENCE_SETTINGS = {
    "ngram, rejection": ("ngram", 1.0),
    "ngram, rejection, top_p=0.95": ("ngram", 0.95),
    "layer_skip, rejection": ("layer_skip", 1.0),
    "ngram, typical": ("typical", 1.0),
}
"""What evidence is measured on at T = 0.7: one-hot and dense drafts, truncation, a lossy rule."""
ROUNDS = 5
WIDTHS = (1, 2, 4, 8, 16)
CONCURRENCIES = (1, 4, 8, 16)
CONTEXT = 256
MIB = 1024**2


def say(text: str) -> None:
    """Progress, on stderr."""
    click.echo(text, err=True)


def requests(
    engine: NativeEngine, suites: Sequence[str], each: int, tokens: int, temperature: float
) -> list[Request]:
    """First turns of test prompts as requests."""
    found: list[Request] = []
    for name in suites:
        for prompt in select(load_suite(name), split="test", limit=each):
            ids = engine.render(messages_for_turn(prompt, 0, [])).token_ids
            found.append(
                Request(
                    RequestKey(name, prompt.id, 0, temperature, 0),
                    ids,
                    Sampling(temperature),
                    Limits(tokens, tokens),
                    engine.stops(),
                    seed=len(found),
                )
            )
    return found


def decode(
    engine: NativeEngine, arm: str, asked: Sequence[Request], concurrency: int = 1
) -> list[Trace]:
    """Traces of one arm; its ticks are left in the engine."""
    return list(engine.run(arm, asked, concurrency))


def against_transformers(engine: NativeEngine) -> dict[str, Any]:
    """Native plain and n-gram decoding against ``generate`` with and without prompt lookup."""
    loaded = load_model(locate(MODEL), dtype="float32")
    asked = requests(engine, ("code", "chat"), 4, 64, 0.0)
    sound = [t.key.item for t in decode(engine, "plain", asked) if not is_degenerate(t)]
    asked = [r for r in asked if r.key.item in sound]
    say(f"against transformers: {len(asked)} items that do not loop, {ROUNDS} rounds")

    def generate(lookup: int | None) -> Callable[[Request], int]:
        def run(request: Request) -> int:
            ids = torch.tensor([request.token_ids])
            with torch.inference_mode():
                out = loaded.model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    do_sample=False,
                    min_new_tokens=request.limits.min_new_tokens,
                    max_new_tokens=request.limits.max_new_tokens,
                    prompt_lookup_num_tokens=lookup,
                )
            return int(out.shape[1] - ids.shape[1])

        return run

    def native(arm: str) -> Callable[[Request], int]:
        return lambda request: len(decode(engine, arm, [request])[0].output_ids)

    contenders = {
        "native plain": native("plain"),
        "transformers generate": generate(None),
        "native ngram": native("ngram"),
        "transformers prompt lookup": generate(5),
    }
    speeds = _interleaved(contenders, asked)
    return {
        "tokens_per_s": speeds,
        "plain_vs_transformers": speeds["native plain"] / speeds["transformers generate"],
        "ngram_vs_transformers": speeds["native ngram"] / speeds["transformers prompt lookup"],
        "items": len(asked),
        "rounds": ROUNDS,
    }


def _interleaved(
    contenders: dict[str, Callable[[Request], int]], asked: Sequence[Request]
) -> dict[str, float]:
    """Tokens per second of each contender, prefill included: median over rounds."""
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run(asked[0])
    for _ in range(ROUNDS):
        tokens, seconds = dict.fromkeys(contenders, 0), dict.fromkeys(contenders, 0.0)
        for request in asked:
            for name, run in contenders.items():
                start = time.perf_counter()
                tokens[name] += run(request)
                seconds[name] += time.perf_counter() - start
        for name in contenders:
            rounds[name].append(tokens[name] / seconds[name])
    return {name: statistics.median(values) for name, values in rounds.items()}


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


def host_share(ticks: Sequence[Tick]) -> float:
    """Share of decode ticks outside the verify forward; for arms whose draft is no model."""
    decode_ticks = [t for t in ticks if t.kind is TickKind.DECODE]
    total = sum(t.end_ns - t.start_ns for t in decode_ticks)
    inside = sum(
        s.end_ns - s.start_ns for t in decode_ticks for s in t.spans if s.phase == "verify"
    )
    return 1 - inside / total


def host_shares(engine: NativeEngine) -> dict[str, float]:
    """Host share of the n-gram arm at both temperatures."""
    say("host share")
    shares = {}
    for temperature, top_p in ((0.0, 1.0), (0.7, 1.0), (0.7, 0.95)):
        asked = requests(engine, ("code", "chat"), 2, 48, temperature)
        asked = [
            Request(
                r.key, r.token_ids, Sampling(temperature, top_p=top_p), r.limits, r.stops, r.seed
            )
            for r in asked
        ]
        decode(engine, "ngram", asked[:1])
        engine.drain_ticks()
        decode(engine, "ngram", asked)
        ticks = engine.drain_ticks()
        name = f"T={temperature:g}" + ("" if top_p == 1 else f" top_p={top_p:g}")
        shares[name] = host_share(ticks)
    return shares


def evidence_shares(engine: NativeEngine) -> dict[str, float]:
    """Share of decode time that collecting fidelity evidence takes, at T = 0.7."""
    say("evidence")
    shares = {}
    for name, (arm, top_p) in EVIDENCE_SETTINGS.items():
        asked = [
            replace(r, sampling=Sampling(0.7, top_p=top_p))
            for r in requests(engine, ("code", "chat"), 2, 48, 0.7)
        ]
        decode(engine, arm, asked[:1])
        engine.drain_ticks()
        decode(engine, arm, asked)
        shares[name] = _phase_share(engine.drain_ticks(), "evidence")
    return shares


def _phase_share(ticks: Sequence[Tick], phase: str) -> float:
    total = sum(t.end_ns - t.start_ns for t in ticks if t.kind is TickKind.DECODE)
    spent = sum(
        s.end_ns - s.start_ns
        for t in ticks
        if t.kind is TickKind.DECODE
        for s in t.spans
        if s.phase == phase
    )
    return spent / total


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
            seconds = sum(t.end_ns - t.start_ns for t in ticks) / 1e9
            rates[c].append(sum(sum(t.steps.committed) for t in traces) / seconds)
    medians = {c: statistics.median(values) for c, values in rates.items()}
    return {str(c): medians[c] / medians[1] for c in CONCURRENCIES} | {"tokens_per_s_1": medians[1]}


def command_line() -> dict[str, Any]:
    """Start-up time of the command, and whether ``show`` stays clear of torch."""
    say("command line")
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "specbench.cli.main", "--help"], check=True, capture_output=True
        )
        times.append(time.perf_counter() - start)
    probe = "import sys, specbench.cli.show; print('torch' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    return {
        "cli_help_s": statistics.median(times),
        "show_imports_torch": loaded.stdout.strip() == "True",
    }


MEMORY_PROBE = f"""
import json
from scripts.benchmark import ARMS, TARGET, decode, requests
from specbench.engines.native import open_engine
engine = open_engine(TARGET, ARMS)
before = engine.memory("plain").peak
for arm in ARMS:
    decode(engine, arm.name, requests(engine, ("code", "chat"), 2, 64, 0.7), 4)
memory = engine.memory("plain")
pool = engine.pool_bytes
print(json.dumps({{
    "after_loading": before / {MIB}, "peak": memory.peak / {MIB},
    "weights": memory.target_weights / {MIB}, "kv_pool": pool / {MIB}}}))
"""


def peak_memory() -> dict[str, float]:
    """Peak resident memory of a process that only runs the native engine, in MiB."""
    say("memory")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure(only: str | None) -> dict[str, Any]:
    """All figures, or one of those that need nothing but the engine."""
    engine = open_engine(TARGET, ARMS)
    if only is not None:
        return {only: PARTS[only](engine), "torch_threads": torch.get_num_threads()}
    figures = against_transformers(engine)
    figures["verify_cost"] = verify_cost(engine)
    figures["host_share"] = host_shares(engine)
    figures["evidence_share"] = evidence_shares(engine)
    figures["batch_scaling"] = batch_scaling(engine)
    figures |= command_line()
    figures["peak_memory_mb"] = peak_memory()
    figures["torch_threads"] = torch.get_num_threads()
    return figures


PARTS: dict[str, Callable[[NativeEngine], dict[str, float]]] = {
    "verify_cost": verify_cost,
    "host_share": host_shares,
    "evidence_share": evidence_shares,
    "batch_scaling": batch_scaling,
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option("--only", type=click.Choice(list(PARTS)), help="One figure instead of all.")
def main(as_json: bool, only: str | None) -> None:
    """Measure and print."""
    figures = measure(only)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        if isinstance(value, dict):
            cells = ", ".join(f"{k}: {v:.3g}" for k, v in value.items())
            click.echo(f"{name:24} {cells}")
        else:
            click.echo(
                f"{name:24} {value:.3g}" if isinstance(value, float) else f"{name:24} {value}"
            )


if __name__ == "__main__":
    main()
