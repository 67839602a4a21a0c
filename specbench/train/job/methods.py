"""From a recipe to the network that is trained, and to the method that trains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from specbench.decoding.protocols import Tap
from specbench.models import vocabulary
from specbench.models.heads.configs import FINAL, HeadCheckpoint, MedusaConfig
from specbench.models.load import LoadedModel, load_model
from specbench.models.locate import locate
from specbench.train.job.heads import starting_head, writer
from specbench.train.losses.divergences import LOSSES
from specbench.train.losses.steps import step_weights
from specbench.train.methods.distill import Distilling, DistillTraining
from specbench.train.methods.features import FeatureTraining, Unrolling
from specbench.train.methods.medusa2 import Joint, Medusa2Training
from specbench.train.methods.method import Method
from specbench.train.methods.models import own_weights, shared_copy
from specbench.train.methods.parallel import HeadLosses, ParallelTraining
from specbench.train.methods.student import every_nth
from specbench.train.recipe.schema import Recipe


@dataclass(frozen=True, slots=True)
class Start:
    """Where a training starts.

    Attributes:
        target: in the recipe's type, its linear layers as torch has them.
        head: in float32; None for a draft model.
        student: the draft model, a transformers model in float32; None for a head.
    """

    target: LoadedModel
    head: HeadCheckpoint | None = None
    student: Any = None

    @property
    def taps(self) -> tuple[Tap, ...]:
        """Hidden states of the target that are captured."""
        return (FINAL,) if self.head is None else self.head.config.taps

    @property
    def draft_ids(self) -> list[int] | None:
        """The target's tokens that are drafted; None for all."""
        ids = None if self.head is None else self.head.tensors.get("target_ids")
        return None if ids is None else ids.tolist()

    @property
    def longest(self) -> int | None:
        """Longest draft that there are heads for; None where heads are used again."""
        config = None if self.head is None else self.head.config
        return config.heads if isinstance(config, MedusaConfig) else None


def load_target(recipe: Recipe) -> LoadedModel:
    """The target as it lends its parts to a network in training."""
    named = recipe.target
    location = locate(named.model, revision=named.revision)
    return load_model(location, dtype=named.dtype, device=named.device)


def start_of(recipe: Recipe, target: LoadedModel, draft_ids: Sequence[int] | None) -> Start:
    """What is trained, as it is at first.

    Args:
        recipe: names it.
        target: from ``load_target``.
        draft_ids: tokens that a new head can propose; None for all.

    Raises:
        UsageError, PrerequisiteError: see ``starting_head``; a draft model with another tokenizer,
            or with more layers than the target has.
    """
    if recipe.family != "model":
        return Start(target, starting_head(recipe, target, draft_ids))
    if recipe.head.start is None:
        return Start(target, student=every_nth(target, recipe.head.layers))
    loaded = load_model(locate(recipe.head.start), dtype="float32", device=str(target.device))
    vocabulary.compare(
        target.tokenizer,
        loaded.tokenizer,
        target_rows=target.model.get_input_embeddings().num_embeddings,
        draft_rows=loaded.model.get_input_embeddings().num_embeddings,
    )
    student = shared_copy(loaded.model)
    own_weights(student)
    return Start(target, student=student)


def method_of(recipe: Recipe, start: Start, per_epoch: int) -> Method:
    """The method that a recipe names, about to begin.

    Args:
        per_epoch: batches of an epoch, over all processes.
    """
    return _MAKERS[recipe.method](recipe, start, per_epoch)


def _unrolled(recipe: Recipe, start: Start, per_epoch: int) -> FeatureTraining:
    how, head = recipe.train, _head(start)
    weights = step_weights(how.steps, how.decay, normalised=how.normalised)
    unrolling = Unrolling(
        how.steps,
        tuple(weights),
        LOSSES[how.loss],
        whole=how.loss_on == "all",
        feature_weight=how.feature_weight,
        law_weight=how.law_weight,
        noise=how.noise,
        seed=how.seed,
        temperature=how.temperature,
    )
    return FeatureTraining(head, start.target, unrolling, writer(recipe, head, start.target))


def _parallel(recipe: Recipe, start: Start, per_epoch: int) -> ParallelTraining:
    head = _head(start)
    write = writer(recipe, head, start.target)
    return ParallelTraining(head, start.target, _head_losses(recipe, start), write)


def _medusa2(recipe: Recipe, start: Start, per_epoch: int) -> Medusa2Training:
    how = recipe.train
    joint = Joint(
        _head_losses(recipe, start),
        rank=how.rank,
        warm_steps=round(how.warm_epochs * per_epoch),
        backbone_learning_rate=how.backbone_learning_rate,
        head_weight=how.head_weight,
        seed=how.seed,
    )
    return Medusa2Training(_head(start), start.target, joint)


def _head_losses(recipe: Recipe, start: Start) -> HeadLosses:
    how, count = recipe.train, start.longest
    assert count is not None
    weights = step_weights(count, how.decay, normalised=how.normalised)
    return HeadLosses(
        tuple(weights),
        LOSSES[how.loss],
        whole=how.loss_on == "all",
        temperature=how.temperature,
    )


def _head(start: Start) -> HeadCheckpoint:
    assert start.head is not None
    return start.head


def _distill(recipe: Recipe, start: Start, per_epoch: int) -> DistillTraining:
    how = recipe.train
    distilling = Distilling(
        LOSSES[how.loss],
        whole=how.loss_on == "all",
        temperature=how.temperature,
        on_policy=how.on_policy,
        seed=how.seed,
        freeze_embeddings=how.freeze_embeddings,
        dtype=getattr(torch, recipe.head.dtype),
    )
    return DistillTraining(start.student, start.target, distilling)


_MAKERS: dict[str, Callable[[Recipe, Start, int], Method]] = {
    "eagle1": _unrolled,
    "eagle3": _unrolled,
    "mtp": _unrolled,
    "medusa1": _parallel,
    "blockwise": _parallel,
    "medusa2": _medusa2,
    "distill": _distill,
}
