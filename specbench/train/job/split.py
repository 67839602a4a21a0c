"""Answers that are trained on, and those that are kept back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from specbench.errors import UsageError
from specbench.train.data.asked import Answered


def split(
    answers: Sequence[Answered], held_out: float, where: str
) -> tuple[list[Answered], list[Answered]]:
    """Training and held-out answers; all answers to one prompt are on one side.

    The side follows from the prompt's id alone, so that more data moves nothing across.

    Raises:
        UsageError: one side is empty.
    """
    train, held = list[Answered](), list[Answered]()
    for one in answers:
        (held if _share(one.id.rpartition("/")[0]) < held_out else train).append(one)
    if not train or not held:
        empty = "to train on" if not train else "held out"
        raise UsageError(
            f"{where}: of {len(answers)} answers none is left {empty} with data.held_out = "
            f"{held_out:g}",
            "ask for more prompts in [[data.prompts]], or change data.held_out",
        )
    return train, held


def _share(name: str) -> float:
    """A number in [0, 1) that follows from a name."""
    return int.from_bytes(hashlib.sha256(f"held out: {name}".encode()).digest()[:8], "big") / 2**64
