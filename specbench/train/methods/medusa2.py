"""Heads and target trained together: Medusa-2 on the target's own answers.

Cai et al. 2401.10774, sections 2.2.2 and 2.3.2. First the heads alone, on the target as it is; then
both, L = KL(original || tuned) + lambda_0 sum lambda_k L_k: self-distillation keeps the target what
it was while its hidden states become easier to read ahead from. The target is tuned through
low-rank adapters; its embedding and output projection stay. What comes out is another model, target
and heads in one folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from specbench.models.heads.configs import FINAL, HeadCheckpoint, MedusaConfig
from specbench.models.heads.layouts.token_maps import MAPS
from specbench.models.heads.medusa import ParallelHeads
from specbench.models.heads.writers import medusa as writers
from specbench.models.load import LoadedModel
from specbench.train.capture.corpus import Batch
from specbench.train.losses.divergences import forward_kl
from specbench.train.losses.rows import TargetProbs, target_probs
from specbench.train.methods.low_rank import adapt, merged_state
from specbench.train.methods.method import Found
from specbench.train.methods.model_folder import write_model
from specbench.train.methods.models import shared_copy, states_of
from specbench.train.methods.parallel import (
    HeadLosses,
    heads_in_training,
    judged_rows,
    logits_at,
    losses_of,
)
from specbench.train.methods.trained import (
    Trained,
    decaying,
    owned,
    trained_tensors,
    untouched,
    with_trained,
)
from specbench.train.methods.vocabulary import DraftVocabulary


@dataclass(frozen=True, slots=True)
class Joint:
    """How both are trained.

    Attributes:
        heads: what the heads minimise.
        rank: of the adapters.
        warm_steps: batches, of all processes, on which the heads are trained alone.
        backbone_learning_rate: of the adapters.
        head_weight: lambda_0.
        seed: of the adapters.
    """

    heads: HeadLosses
    rank: int
    warm_steps: int
    backbone_learning_rate: float
    head_weight: float = 0.2
    seed: int = 0


class Medusa2Training(Trained):
    """Implements ``methods.method.Method`` for Medusa heads and the target under them.

    Acceptance and agreement are with the tuned target, which is what verifies in the end.

    Args:
        checkpoint: the heads to start from, in float32.
        target: its modules are copied, its tensors are shared and stay as they are.
        how: see there.

    Raises:
        UsageError: another temperature than 1 with a draft vocabulary, or a quantised target.
        PrerequisiteError: heads that do not fit the target, or a target that lends no rows.
    """

    def __init__(self, checkpoint: HeadCheckpoint, target: LoadedModel, how: Joint) -> None:
        self._checkpoint = owned(checkpoint)
        self._target, self._how = target, how
        self._tuned = shared_copy(target.model)
        self._tuned.requires_grad_(False)
        adapt(self._tuned, how.rank, how.seed)
        self._heads: ParallelHeads = heads_in_training(self._checkpoint, target)
        self.module = nn.ModuleDict({"tuned": self._tuned, "heads": self._heads})
        ids = self._heads.target_ids
        self._whole = DraftVocabulary.of(target, None)
        self.vocabulary = self._whole if ids is None else DraftVocabulary.of(target, ids)
        self.vocabulary.require(how.heads.temperature)

    def loss(self, batch: Batch, step: int) -> Found:
        """The heads' weighted loss, and behind the first steps what the target moved by."""
        rows = self.rows(batch)
        if not len(rows):
            return self.nothing()
        how = self._how.heads
        target = self.vocabulary.probs(batch, rows, how.temperature)
        if step < self._how.warm_steps:
            states, verifier, moved = batch.states[FINAL], target, untouched(self._tuned)
        else:
            states = states_of(self._tuned, batch.ids, batch.lengths)
            verifier, moved = self._tuned_rows(batch, rows, states, target)
        logits = logits_at(self._heads, states, rows)
        total, depths = losses_of(self.vocabulary, how, target, verifier, logits)
        return Found(moved + self._how.head_weight * total, depths, len(rows))

    def _tuned_rows(
        self, batch: Batch, rows: Tensor, states: Tensor, target: TargetProbs
    ) -> tuple[TargetProbs, Tensor]:
        """The tuned target's law of the drafted tokens, and its mean distance to the original."""
        raw = functional.linear(states[rows].float(), self._whole.projection, self._whole.bias)
        own, original = self._whole.drafted(raw), self._whole.probs(batch, rows)
        moved = (forward_kl(original, own) - original.entropy()).mean()
        ids = self._heads.target_ids
        with torch.no_grad():
            law = self._whole.drafted(raw, self._how.heads.temperature)
            verifier = target_probs(
                law if ids is None else law[:, ids],
                None if ids is None else law.logsumexp(1),
                target.token,
                self.vocabulary.rows[own.argmax(1)],
            )
        return verifier, moved

    def rows(self, batch: Batch) -> Tensor:
        """int64 [M] packed places whose rows are judged."""
        return judged_rows(batch, self._heads.count, whole=self._how.heads.whole)

    def logits(self, batch: Batch, rows: Tensor) -> list[Tensor]:
        """Logits [M, Vd] of every head for these rows, from the tuned target's hidden states."""
        return logits_at(self._heads, states_of(self._tuned, batch.ids, batch.lengths), rows)

    def groups(self, learning_rate: float) -> list[dict[str, object]]:
        """The heads as ever; the adapters with a learning rate of their own, without decay.

        Decay would draw them while the heads are trained alone.
        """
        adapters = [p for p in self._tuned.parameters() if p.requires_grad]
        own = {"params": adapters, "lr": self._how.backbone_learning_rate, "weight_decay": 0.0}
        return [*decaying(self._heads, learning_rate), own]

    def checkpoint(self) -> HeadCheckpoint:
        """The heads as they stand."""
        return with_trained(self._checkpoint, trained_tensors(self._heads))

    def export(self, folder: Path) -> None:
        """Write a model folder: the tuned target, the heads among its tensors, its tokenizer.

        All of it has the target's data type.
        """
        checkpoint = self.checkpoint()
        assert isinstance(checkpoint.config, MedusaConfig)
        lent = checkpoint.config.projection == "target"
        config, tensors = (writers.v2 if lent else writers.v1)(checkpoint)
        heads = {n if n in MAPS else f"medusa_head.{n}": t for n, t in tensors.items()}
        # Each in memory of its own: one projection may be written for several heads.
        state = {n: t.detach().clone() for n, t in heads.items()}
        model = shared_copy(self._target.model)
        known = model.config.to_dict()
        write_model(
            model,
            folder,
            self._target.location.path,
            state={**merged_state(self._tuned), **state},
            more={name: value for name, value in config.items() if value and name not in known},
        )
