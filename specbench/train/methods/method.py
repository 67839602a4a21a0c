"""What the training loop asks of a way of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor, nn

from specbench.train.capture.corpus import Batch


@dataclass(frozen=True, slots=True)
class DepthFound:
    """One drafting step, or one head, on one batch; scalars on the device, without gradients.

    Attributes:
        loss: mean over the judged rows.
        alpha: mean chance that a draft drawn there is accepted, sum min(target, draft).
        agreement: share of rows whose first choice is the target's.
    """

    loss: Tensor
    alpha: Tensor
    agreement: Tensor


@dataclass(frozen=True, slots=True)
class Found:
    """What came out of a batch.

    Attributes:
        loss: scalar with gradients, what is minimised.
        depths: by drafting step.
        rows: judged rows; 0 where the batch has nothing to learn from, then the loss is 0.
    """

    loss: Tensor
    depths: Sequence[DepthFound]
    rows: int


class Method(Protocol):
    """A network in training.

    Attributes:
        module: whose parameters with ``requires_grad`` are trained.
    """

    module: nn.Module

    def loss(self, batch: Batch, step: int) -> Found:
        """Loss of a batch; ``step`` addresses random numbers, where there are any."""
        ...

    def groups(self, learning_rate: float) -> list[dict[str, object]]:
        """Parameter groups for the optimiser."""
        ...

    def state(self) -> dict[str, Tensor]:
        """The trained tensors by name, as they are: for checkpoints."""
        ...

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put trained tensors back."""
        ...

    def export(self, folder: Path) -> None:
        """Write what was trained in a published layout."""
        ...
