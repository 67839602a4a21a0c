"""A tiny target on disk and conversations for it."""

from __future__ import annotations

import random
from pathlib import Path

from specbench.train.data.asked import Answered
from tests.models.tiny import byte_level_tokens, tiny_model, write_tokenizer


def write_target(folder: Path, seed: int = 0) -> Path:
    """A two-layer Llama with random weights, and its tokenizer."""
    tiny_model(seed).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def answered(name: str, prompt: int, answer: int, temperature: float = 0.0) -> Answered:
    """A conversation of random tokens that follow from its name."""
    chance = random.Random(name)
    ids = [chance.randrange(3, len(byte_level_tokens())) for _ in range(prompt + answer)]
    return Answered(name, "made", tuple(ids[:prompt]), tuple(ids[prompt:]), temperature, "length")


def some(count: int, seed: int = 0) -> list[Answered]:
    """Conversations of 8 to 40 tokens."""
    chance = random.Random(seed)
    return [
        answered(f"q-{n:02d}/0", chance.randint(3, 15), chance.randint(5, 25)) for n in range(count)
    ]
