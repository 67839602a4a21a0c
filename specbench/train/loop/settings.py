"""How a training goes, and what a caller does and hears meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from specbench.train.methods.method import Method


@dataclass(frozen=True, slots=True)
class Optimising:
    """How a training goes.

    Attributes:
        epochs: times that all conversations are seen.
        batch_tokens: of one batch of one process.
        accumulate: batches of a process whose gradients are averaged for one step.
        optimiser: ``adamw`` or ``muon``, see ``loop.optimisers``.
        learning_rate, betas, weight_decay, warmup, schedule: of it; see ``loop.schedule``.
        clip_norm, clip_value: largest norm of all gradients, and largest gradient; 0 = off.
        autocast: data type of matrix products, None for the weights' own.
        validations: evenly spaced over all steps, the end included; one more before the first.
        patience: validations without a better one after which it ends; 0 = never.
        save_seconds: between two checkpoints, at least.
        seed: of the order of batches.
    """

    epochs: float
    batch_tokens: int
    accumulate: int = 1
    optimiser: str = "adamw"
    learning_rate: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.0
    warmup: float = 0.03
    schedule: str = "cosine"
    clip_norm: float = 0.5
    clip_value: float = 0.0
    autocast: torch.dtype | None = None
    validations: int = 6
    patience: int = 0
    save_seconds: float = 60.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a caller does and hears while it goes on.

    Attributes:
        validate: figures of the network as it stands; ``accept_length`` is what counts.
        moved: step, all steps, figures of the last step.
        validated: step, and what ``validate`` found.
        over: whether this call's time is up; asked behind every step.
    """

    validate: Callable[[Method], Mapping[str, float]]
    moved: Callable[[int, int, Mapping[str, float]], None] = lambda step, total, figures: None
    validated: Callable[[int, Mapping[str, float]], None] = lambda step, figures: None
    over: Callable[[], bool] = lambda: False
