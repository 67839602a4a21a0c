"""Captured conversations in memory: hidden states by transformers alone, its eager attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import FINAL
from specbench.models.load import LoadedModel
from specbench.train.capture.corpus import Batch


def captured(
    target: LoadedModel,
    lines: Sequence[Sequence[int]],
    answers: Sequence[int],
    taps: Sequence[Tap] = (FINAL,),
) -> Batch:
    """A batch of whole conversations, in order.

    Args:
        answers: place of each answer's first token.
    """
    found = [run(target.model, line) for line in lines]
    states = {tap: torch.cat([_tapped(one[1], tap) for one in found]) for tap in {FINAL, *taps}}
    logits = torch.cat([one[0] for one in found])
    return Batch(
        torch.tensor([token for line in lines for token in line]),
        tuple(map(len, lines)),
        tuple(answers),
        states,
        logits.logsumexp(1),
        logits.argmax(1),
    )


@torch.no_grad()
def run(model: Any, line: Sequence[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Logits [n, V] of one conversation, and its hidden states, each [n, H]."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        found = model(
            input_ids=torch.tensor([list(line)]), use_cache=False, output_hidden_states=True
        )
    finally:
        model.set_attn_implementation(before)
    return found.logits[0], tuple(state[0] for state in found.hidden_states)


def _tapped(states: tuple[Tensor, ...], tap: Tap) -> Tensor:
    if tap.side == "final":
        return states[-1]
    return states[tap.layer + (tap.side == "leaving")]


def lines_of(lengths: Sequence[int], vocabulary: int, seed: int = 0) -> list[list[int]]:
    """Random conversations of these lengths."""
    chance = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocabulary, (n,), generator=chance).tolist() for n in lengths]


class Recorder:
    """A loss that keeps what it is given: logits [M, Vd], call after call; it is 0 itself."""

    def __init__(self) -> None:
        self.targets: list[Any] = []
        self.logits: list[Tensor] = []

    def __call__(self, target: Any, logits: Tensor) -> Tensor:
        self.targets.append(target)
        self.logits.append(logits.detach())
        return logits.sum(1) * 0
