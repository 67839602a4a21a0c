"""The native engine against ``transformers`` with and without prompt lookup."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from specbench.core.request import Request
from specbench.engines.native import NativeEngine
from specbench.metrics.degenerate import is_degenerate
from specbench.models.load import load_model
from specbench.models.locate import locate

from .setting import MODEL, ROUNDS, decode, requests, say


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
