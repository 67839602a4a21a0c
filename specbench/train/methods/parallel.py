"""Parallel heads over a frozen target: Medusa-1, and blockwise parallel decoding.

Cai et al. 2401.10774, section 2.2.1; Stern et al. 1811.03115, section 6. Head i, counted from 0,
reads the target's final hidden state of t and predicts x at t + 2 + i, that is, the target's row of
t + 1 + i. Row r is so met by head i at t = r - 1 - i: all heads are judged on the same rows. With a
loss between laws the heads learn the target's rows themselves (self-distillation).

Shapes: T tokens of a batch, M judged rows, c heads, H hidden size, Vd tokens that heads propose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specbench.models.heads.configs import FINAL, HeadCheckpoint
from specbench.models.heads.medusa import ParallelHeads, build_parallel_heads
from specbench.models.load import LoadedModel
from specbench.train.capture.corpus import Batch
from specbench.train.losses.divergences import Loss
from specbench.train.losses.rows import TargetProbs
from specbench.train.methods.method import DepthFound, Found
from specbench.train.methods.slots import slots_of
from specbench.train.methods.trained import Trained, judged, owned, with_trained
from specbench.train.methods.vocabulary import DraftVocabulary


@dataclass(frozen=True, slots=True)
class HeadLosses:
    """What heads minimise.

    Attributes:
        weights: of each head's loss.
        loss: between the target's law and a head's.
        whole: judge prompts too.
        temperature: of both laws.
    """

    weights: tuple[float, ...]
    loss: Loss
    whole: bool = False
    temperature: float = 1.0


class ParallelTraining(Trained):
    """Implements ``methods.method.Method`` for Medusa heads on a target that stays as it is.

    Projections of their own are trained with the heads; the target's, or its rows of a draft
    vocabulary, are not.

    Args:
        checkpoint: the heads to start from, in float32.
        target: lends its projection.
        how: see there; a weight for every head.
        write: writes a checkpoint in the layout that was asked for.

    Raises:
        UsageError: another temperature than 1 with a draft vocabulary.
        PrerequisiteError: heads that do not fit the target, or a target that lends no rows.
    """

    def __init__(
        self,
        checkpoint: HeadCheckpoint,
        target: LoadedModel,
        how: HeadLosses,
        write: Callable[[HeadCheckpoint, Path], object],
    ) -> None:
        self._checkpoint = owned(checkpoint)
        self._heads = heads_in_training(self._checkpoint, target)
        self.module = self._heads
        self.vocabulary = DraftVocabulary.of(target, self._heads.target_ids)
        self.vocabulary.require(how.temperature)
        self._how = how
        self._write = write

    def loss(self, batch: Batch, step: int) -> Found:
        """Weighted sum over heads of the mean loss of the judged rows."""
        rows = self.rows(batch)
        if not len(rows):
            return self.nothing()
        target = self.vocabulary.probs(batch, rows, self._how.temperature)
        logits = self.logits(batch, rows)
        total, depths = losses_of(self.vocabulary, self._how, target, target, logits)
        return Found(total, depths, len(rows))

    def rows(self, batch: Batch) -> Tensor:
        """int64 [M] packed places whose rows are judged."""
        return judged_rows(batch, self._heads.count, whole=self._how.whole)

    def logits(self, batch: Batch, rows: Tensor) -> list[Tensor]:
        """Logits [M, Vd] of every head for these rows."""
        return logits_at(self._heads, batch.states[FINAL], rows)

    def checkpoint(self) -> HeadCheckpoint:
        """The heads as they stand."""
        return with_trained(self._checkpoint, self.state())

    def export(self, folder: Path) -> None:
        """Write the heads."""
        self._write(self.checkpoint(), folder)


def heads_in_training(checkpoint: HeadCheckpoint, target: LoadedModel) -> ParallelHeads:
    """The network of inference; every tensor that is not the target's takes gradients."""
    rows = target.model.get_input_embeddings().num_embeddings
    return build_parallel_heads(checkpoint, target, vocabulary=rows).requires_grad_(True)


def judged_rows(batch: Batch, heads: int, *, whole: bool) -> Tensor:
    """int64 [M] packed places whose rows are judged: each has a token that every head starts from.

    Args:
        whole: rows of the prompts too.
    """
    # The last head's row is as far ahead of its token as the last of as many drafting steps.
    return slots_of(batch.lengths, batch.answers, heads, whole=whole).to(batch.ids).rows


def logits_at(heads: ParallelHeads, states: Tensor, rows: Tensor) -> list[Tensor]:
    """Logits [M, Vd] of every head for the rows int64 [M], from hidden states [T, H]."""
    read = torch.zeros(len(states), dtype=torch.bool, device=states.device)
    places = [rows - 1 - head for head in range(heads.count)]
    for place in places:
        read[place] = True
    row_of = read.cumsum(0) - 1
    # Neighbouring rows share tokens: each token goes through all heads once.
    logits = heads.logits(states[read], heads.count)
    return [logits[row_of[place], head] for head, place in enumerate(places)]


def losses_of(
    vocabulary: DraftVocabulary,
    how: HeadLosses,
    target: TargetProbs,
    verifier: TargetProbs,
    logits: list[Tensor],
) -> tuple[Tensor, list[DepthFound]]:
    """Weighted sum over heads of their mean losses, and what is reported of each.

    Args:
        vocabulary: that of the heads.
        how: see there.
        target: what is learnt.
        verifier: what accepts or refuses: acceptance and agreement are with it.
        logits: [M, Vd] per head.
    """
    total, depths = logits[0].new_zeros((), dtype=torch.float32), []
    for weight, rows in zip(how.weights, logits, strict=True):
        drafted = vocabulary.drafted(rows, how.temperature)
        loss = how.loss(target, drafted).mean()
        total = total + weight * loss
        depths.append(judged(loss, verifier, drafted))
    return total, depths
