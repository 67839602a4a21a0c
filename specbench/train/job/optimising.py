"""A recipe's [train] and [validate] tables as the loop and the validation take them."""

from __future__ import annotations

import torch

from specbench.train.job.methods import Start
from specbench.train.loop.settings import Optimising
from specbench.train.recipe.methods import UNROLLED
from specbench.train.recipe.schema import Recipe

K = 3
"""Longest draft of validation where a method says nothing about it."""


def optimising(recipe: Recipe) -> Optimising:
    """How the training goes."""
    how = recipe.train
    return Optimising(
        epochs=how.epochs,
        batch_tokens=how.batch_tokens,
        accumulate=how.accumulate,
        optimiser=how.optimiser,
        learning_rate=how.learning_rate,
        betas=(how.betas[0], how.betas[1]),
        weight_decay=how.weight_decay,
        warmup=how.warmup,
        schedule=how.schedule,
        clip_norm=how.clip_norm,
        clip_value=how.clip_value,
        autocast=None if how.precision == "float32" else getattr(torch, how.precision),
        validations=how.validations,
        patience=how.patience,
        seed=how.seed,
    )


def longest(recipe: Recipe, start: Start) -> int:
    """Longest draft of validation: one per head, or per step that it is unrolled over."""
    steps = recipe.train.steps if recipe.method in UNROLLED else K
    return recipe.validate_.k or start.longest or max(K, steps)
