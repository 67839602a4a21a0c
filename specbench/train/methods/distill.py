"""A smaller model that learns to speak like the target (DistillSpec, Zhou et al. 2310.08461).

The draft's row of t predicts x at t + 1, as the target's does: row is held against row. What both
are run over are the target's own answers, captured before, or for a share of the steps answers that
the student draws itself from the same prompts, which are what it will draft (section 3, and GKD,
Agarwal et al. 2306.13649).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specbench.errors import UsageError
from specbench.models.load import LoadedModel
from specbench.models.vocabulary import padding_mask, real_ids
from specbench.train.capture.corpus import Batch
from specbench.train.losses.divergences import Loss
from specbench.train.methods.method import Found
from specbench.train.methods.model_folder import write_model
from specbench.train.methods.models import logits_of
from specbench.train.methods.on_policy import FrozenTarget, sampled
from specbench.train.methods.slots import slots_of
from specbench.train.methods.trained import Trained, judged
from specbench.train.methods.vocabulary import DraftVocabulary


@dataclass(frozen=True, slots=True)
class Distilling:
    """How a student learns.

    Attributes:
        loss: between the target's law and the student's.
        whole: judge prompts too.
        temperature: of both laws.
        on_policy: share of the steps on answers of the student itself.
        seed: of which steps these are, and of what it says.
        freeze_embeddings: leave the embedding as it is, and an output projection tied to it.
        dtype: of what is written; it is trained in float32.
    """

    loss: Loss
    whole: bool = False
    temperature: float = 1.0
    on_policy: float = 0.0
    seed: int = 0
    freeze_embeddings: bool = False
    dtype: torch.dtype = torch.float32


class DistillTraining(Trained):
    """Implements ``methods.method.Method`` for a draft model.

    Args:
        student: a causal LM of transformers in float32, with the target's tokenizer; it is trained
            in place. ``student.every_nth`` makes one.
        target: the teacher.
        how: see there.

    Raises:
        UsageError: a student that cannot say all of the target's tokens.
        PrerequisiteError: a target that lends no rows, or changes its logits behind them.
    """

    def __init__(self, student: Any, target: LoadedModel, how: Distilling) -> None:
        self._student, self._target, self._how = student, target, how
        student.requires_grad_(True)
        if how.freeze_embeddings:
            student.get_input_embeddings().requires_grad_(False)
        self.module = student
        own = student.get_input_embeddings().num_embeddings
        rows = target.model.get_output_embeddings().out_features
        whole = DraftVocabulary.of(target, None)
        self._vocabulary = whole if own >= rows else DraftVocabulary.of(target, torch.arange(own))
        if not self._vocabulary.whole:
            raise UsageError(
                f"head.start: the draft model has {own} vocabulary rows, and the target says "
                f"{target.real_vocab_size} tokens",
                "start from a model with the target's own tokenizer, or leave head.start out",
            )
        self._teacher = FrozenTarget(target, whole) if how.on_policy else None

    def loss(self, batch: Batch, step: int) -> Found:
        """Mean loss of the judged rows, on the batch's answers or on the student's own."""
        how = self._how
        if self._teacher is not None and self._addressed(step).random() < how.on_policy:
            batch = self._own_answers(self._teacher, batch, step)
        rows = slots_of(batch.lengths, batch.answers, 0, whole=how.whole).to(batch.ids).rows
        if not len(rows):
            return self.nothing()
        target = self._vocabulary.probs(batch, rows, how.temperature)
        # A student may have more rows than the target: padding, which is never drafted.
        said = logits_of(self._student, batch.ids, batch.lengths, rows)
        logits = self._vocabulary.drafted(
            said[:, : len(self._vocabulary.projection)], how.temperature
        )
        loss = how.loss(target, logits).mean()
        return Found(loss, [judged(loss, target, logits)], len(rows))

    def _addressed(self, step: int) -> random.Random:
        """Chance that follows from seed and step alone, whatever was drawn before."""
        return random.Random(f"{self._how.seed}:{step}")

    def _own_answers(self, teacher: FrozenTarget, batch: Batch, step: int) -> Batch:
        """The batch with answers of the student, each as long as the one it replaces at most."""
        lines = [line.tolist() for line in batch.ids.split(list(batch.lengths))]
        pairs = list(zip(lines, batch.answers, strict=True))
        # Without an answer there is nothing to replace.
        prompts = [line[:answer] for line, answer in pairs if len(line) > answer]
        counts = [len(line) - answer for line, answer in pairs if len(line) > answer]
        if not prompts:
            return batch
        chance = torch.Generator().manual_seed(self._how.seed * 1_000_003 + step)
        said = sampled(
            self._student, self._padding(), prompts, counts, self._target.eos_ids, chance
        )
        joined = [[*prompt, *own] for prompt, own in zip(prompts, said, strict=True)]
        ids = torch.tensor([token for line in joined for token in line], device=batch.ids.device)
        return teacher.batch(ids, [len(one) for one in joined], [len(one) for one in prompts])

    def _padding(self) -> torch.Tensor | None:
        """bool [V] of the student's rows that are no token."""
        rows = self._student.get_input_embeddings().num_embeddings
        if self._target.real_vocab_size >= rows:
            return None
        device = self._student.get_input_embeddings().weight.device
        return padding_mask(rows, real_ids(self._target.tokenizer), device)

    def export(self, folder: Path) -> None:
        """Write a model folder, with the target's tokenizer."""
        source = self._target.location.path
        write_model(self._student, folder, source, dtype=self._how.dtype)
