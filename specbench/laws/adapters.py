"""Anybody's sampler as a sampler of rounds: called with tensors, its output checked.

Shapes: B rounds, K draft length, V vocabulary. Probabilities are float32, ids int64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from specbench.laws.codes import BrokenOutputError
from specbench.laws.rounds import Rounds


class Adapter(StrEnum):
    """How a sampler is called, and so how its law is found."""

    UNIFORMS = "uniforms"
    """f(target_probs [B, K+1, V], draft_probs [B, K, V], draft_ids [B, K], accept_uniforms
    float64 [B, K], last_uniform float64 [B]) -> tokens [B, K+1]: exact, by integration."""
    GENERATOR = "generator"
    """f(target_probs, draft_probs, draft_ids, generator) -> tokens [B, K+1]: a sequential test."""
    COUNTS = "counts"
    """f(target_probs [K+1, V], draft_probs [K, V], samples, seed) -> counts [K+1, V], the rounds
    that emitted each token at each place; the sampler drafts by itself."""


def tensors(given: Rounds, device: torch.device) -> list[Tensor]:
    """target_probs [B, K+1, V], draft_probs [B, K, V] and draft_ids [B, K], as copies."""
    found = [given.target[given.position], given.draft[given.source], given.ids]
    return [_copy(tensor, device) for tensor in found]


def _copy(tensor: Tensor, device: torch.device) -> Tensor:
    """A contiguous copy, which a sampler may spoil."""
    return tensor.clone(memory_format=torch.contiguous_format).to(device)


def emitted_tokens(output: object, shape: tuple[int, ...], what: str = "tokens") -> Tensor:
    """A sampler's output as int64 on the host; ``BrokenOutputError`` for another type or shape."""
    if not isinstance(output, Tensor):
        raise BrokenOutputError(f"returned {type(output).__name__}, not a tensor of {what}")
    if output.dtype not in (torch.int32, torch.int64) or tuple(output.shape) != shape:
        raise BrokenOutputError(
            f"returned {output.dtype} {list(output.shape)}; {what} are int64 or int32 {list(shape)}"
        )
    return output.to("cpu", torch.int64)


@dataclass(frozen=True, slots=True)
class UniformsSampler:
    """A sampler whose random numbers are arguments, see ``Adapter.UNIFORMS``."""

    function: Callable[..., Any]
    device: torch.device

    def __call__(self, given: Rounds) -> Tensor:
        """The emitted tokens int64 [B, K + 1]."""
        return self.call(self.arguments(given))

    def arguments(self, given: Rounds) -> list[Tensor]:
        """What the function is called with."""
        numbers = [given.accept, given.last]
        return [*tensors(given, self.device), *(_copy(n, self.device) for n in numbers)]

    def call(self, arguments: list[Tensor]) -> Tensor:
        """Call the function and check what it returns."""
        batch, width = arguments[0].shape[:2]
        return emitted_tokens(self.function(*arguments), (batch, width))

    def changes(self, given: Rounds) -> str:
        """Which argument the function writes to; empty where it leaves all alone."""
        arguments = self.arguments(given)
        before = [argument.clone() for argument in arguments]
        self.call(arguments)
        names = ("target_probs", "draft_probs", "draft_ids", "accept_uniforms", "last_uniform")
        pairs = zip(names, before, arguments, strict=True)
        changed = [name for name, old, new in pairs if not torch.equal(old, new)]
        return f"writes to {', '.join(changed)}" if changed else ""


@dataclass(frozen=True, slots=True)
class GeneratorSampler:
    """A sampler that draws from a generator, see ``Adapter.GENERATOR``."""

    function: Callable[..., Any]
    device: torch.device

    def __call__(self, given: Rounds, generator: torch.Generator) -> Tensor:
        """The emitted tokens int64 [B, K + 1]."""
        arguments = tensors(given, self.device)
        batch, width = arguments[0].shape[:2]
        return emitted_tokens(self.function(*arguments, generator), (batch, width))


@dataclass(frozen=True, slots=True)
class CountsSampler:
    """A sampler that drafts by itself and counts, see ``Adapter.COUNTS``."""

    function: Callable[..., Any]
    device: torch.device

    def __call__(self, target: Tensor, draft: Tensor, samples: int, seed: int) -> Tensor:
        """Counts int64 [K + 1, V] of ``samples`` rounds; every round emits at least one token."""
        rows = [_copy(tensor, self.device) for tensor in (target, draft)]
        output = self.function(*rows, samples, seed)
        counts = emitted_tokens(output, tuple(target.shape), "counts")
        rounds_at = counts.sum(1)
        if bool((counts < 0).any()) or int(rounds_at[0]) != samples:
            raise BrokenOutputError(
                f"counted {int(rounds_at[0])} first tokens in {samples} rounds; every round has one"
            )
        if bool((rounds_at.diff() > 0).any()):
            raise BrokenOutputError(f"counted {rounds_at.tolist()} tokens: places may not grow")
        return counts
