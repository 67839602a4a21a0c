"""Heads that continue the target's hidden states, unrolled over drafting steps as they will run.

EAGLE-3's training-time test (Li et al. 2503.01840, section 3), which is also how one MTP module
learns to be used again and again (FastMTP), and EAGLE-1 with its loss on hidden states (Li et al.
2401.15077, section 4.2). The network is the one of inference; only its attention is another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import FINAL, HeadCheckpoint
from specbench.models.load import LoadedModel
from specbench.train.capture.corpus import Batch
from specbench.train.losses.divergences import Loss
from specbench.train.losses.features import smooth_l1
from specbench.train.methods.method import Found
from specbench.train.methods.slots import slots_of
from specbench.train.methods.trained import Trained, judged, owned, with_trained
from specbench.train.methods.unrolled import Unrolled
from specbench.train.methods.vocabulary import DraftVocabulary

FROZEN = ("lm_head.", "head.", "embed_tokens.")
"""Beginnings of names that are the target's: both ends of a head."""


@dataclass(frozen=True, slots=True)
class Unrolling:
    """How a head is unrolled.

    Attributes:
        steps: drafting steps.
        weights: of each step's loss.
        loss: between the target's law and the head's.
        whole: judge prompts too.
        feature_weight: of smooth L1 to the target's own hidden states; 0 = none.
        law_weight: of ``loss``.
        noise: half the width of uniform noise on the target's hidden states.
        seed: of the noise.
        temperature: of both laws.
    """

    steps: int
    weights: tuple[float, ...]
    loss: Loss
    whole: bool = False
    feature_weight: float = 0.0
    law_weight: float = 1.0
    noise: float = 0.0
    seed: int = 0
    temperature: float = 1.0


class FeatureTraining(Trained):
    """Implements ``methods.method.Method`` for EAGLE and MTP heads.

    Args:
        checkpoint: the head to start from, in float32.
        target: lends both ends.
        unrolling: see there.
        write: writes a checkpoint in the layout that was asked for.

    Raises:
        UsageError: another temperature than 1 with a draft vocabulary.
        PrerequisiteError: a head that does not fit the target, or a target that lends no rows.
    """

    def __init__(
        self,
        checkpoint: HeadCheckpoint,
        target: LoadedModel,
        unrolling: Unrolling,
        write: Callable[[HeadCheckpoint, Path], object],
    ) -> None:
        self._checkpoint = owned(checkpoint)
        self._head = build_feature_head(self._checkpoint, target)
        assert isinstance(self._head, nn.Module)
        self.module: nn.Module = self._head
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad_(not name.startswith(FROZEN))
        self._unrolling = unrolling
        self._vocabulary = DraftVocabulary.of(target, self._head.target_ids)
        self._vocabulary.require(unrolling.temperature)
        self._write = write

    def loss(self, batch: Batch, step: int) -> Found:
        """Sum over drafting steps of the weighted mean loss of the judged rows."""
        how, head = self._unrolling, self._head
        slots = slots_of(batch.lengths, batch.answers, how.steps, whole=how.whole).to(batch.ids)
        if not len(slots.rows):
            return self.nothing()
        features = torch.cat([batch.states[tap] for tap in head.taps], -1)[slots.tokens]
        hidden = head.begin(self._noisy(features, step))
        target = self._vocabulary.probs(batch, slots.rows, how.temperature)
        plan, total, depths = Unrolled(slots.lengths), features.new_zeros(()), []
        for depth in range(how.steps):
            ids = slots.following(batch.ids, depth)
            states = head.states(ids, hidden, slots.places + depth, plan)
            chosen = states[slots.at - depth]
            logits = self._vocabulary.drafted(head.logits(chosen), how.temperature)
            loss = how.law_weight * how.loss(target, logits).mean()
            if how.feature_weight:
                true = batch.states[FINAL][slots.rows]
                loss = loss + how.feature_weight * smooth_l1(chosen, true).mean()
            total = total + how.weights[depth] * loss
            depths.append(judged(loss, target, logits))
            hidden = head.recycle(states, hidden)
        return Found(total, depths, len(target))

    def _noisy(self, features: Tensor, step: int) -> Tensor:
        """Uniform noise, as EAGLE-1 adds it, so that a head bears its own errors (section 4.2)."""
        if not self._unrolling.noise:
            return features
        chance = torch.Generator().manual_seed(self._unrolling.seed * 1_000_003 + step)
        noise = torch.rand(features.shape, generator=chance).to(features) * 2 - 1
        return features + self._unrolling.noise * noise

    def checkpoint(self) -> HeadCheckpoint:
        """The head as it stands."""
        return with_trained(self._checkpoint, self.state())

    def export(self, folder: Path) -> None:
        """Write the head."""
        self._write(self.checkpoint(), folder)
