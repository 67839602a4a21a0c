"""How large everything is: the shapes that the aims are stated for, or toys that a CPU can run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.models.shapes.find import configuration


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured.

    Attributes:
        name: in the result.
        target, draft: configurations of both models.
        dtype: of weights and KV.
        context: tokens in the cache of every request.
        batch: requests of the larger batch.
        rows: tokens verified at once, K + 1.
        k, acceptance: of the draft model, and the chance that a draft is kept.
        long: context at which back ends of attention are compared.
        tree: nodes of a tree, and its context.
        contexts: of the table of what masks cost.
        tokens: generated in a timed run.
        repeats: interleaved repetitions of what is timed.
        read_seconds: allowed for timing the memory.
    """

    name: str
    target: Mapping[str, Any]
    draft: Mapping[str, Any]
    dtype: str
    context: int
    batch: int
    rows: int
    k: int
    acceptance: float
    long: int
    tree: tuple[int, int]
    contexts: tuple[int, ...]
    tokens: int
    repeats: int
    read_seconds: float


def full() -> Sizes:
    """The shapes of the aims: Llama-3.1-8B with a draft of Llama-3.2-1B, in bfloat16."""
    return Sizes(
        name="llama-3.1-8b with llama-3.2-1b",
        target=configuration("llama-3.1-8b").config,
        draft=configuration("llama-3.2-1b").config,
        dtype="bfloat16",
        context=1024,
        batch=32,
        rows=8,
        k=4,
        acceptance=0.8,
        long=16_384,
        tree=(32, 8192),
        contexts=(1024, 2048, 4096, 8192, 16_384, 32_768),
        tokens=96,
        repeats=15,
        read_seconds=6.0,
    )


def tiny() -> Sizes:
    """Toys on which every part that a CPU can run ends in seconds."""
    common = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "vocab_size": 256,
        "tie_word_embeddings": False,
    }
    return Sizes(
        name="toys",
        target=common | {"num_hidden_layers": 2},
        draft=common | {"num_hidden_layers": 1},
        dtype="float32",
        context=32,
        batch=3,
        rows=4,
        k=3,
        acceptance=0.8,
        long=64,
        tree=(8, 48),
        contexts=(32, 64),
        tokens=24,
        repeats=3,
        read_seconds=0.3,
    )


SIZES = {"full": full, "tiny": tiny}
