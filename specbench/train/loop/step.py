"""One optimiser step: gradients of some batches, clipped, taken at the schedule's rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from specbench.core.full_memory import out_of_memory
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.train.capture.corpus import Batch
from specbench.train.loop.means import Means
from specbench.train.loop.optimisers import Optimisers
from specbench.train.loop.ranks import Averaged, Ranks
from specbench.train.loop.schedule import rate
from specbench.train.loop.settings import Optimising
from specbench.train.methods.method import Found, Method


class BrokenLossError(SpecbenchError):
    """A loss or a gradient is no number; no weight was changed by it.

    Args:
        step: that was to be taken, counted from 1.
        loss, norm: what came out, mean over the processes.
        kept: step of the last checkpoint.
        clip_norm: largest norm that was let through; 0 = any.
    """

    def __init__(self, step: int, loss: float, norm: float, kept: int, clip_norm: float) -> None:
        clip = "train.clip_norm" if clip_norm else "set train.clip_norm"
        super().__init__(
            f"step {step}: the loss is {loss:g}, the norm of its gradients {norm:g}",
            f"lower train.learning_rate or {clip} in the recipe and type the same command again; "
            f"it goes on from step {kept}",
        )
        self.step = step


class Stepper:
    """Takes the steps of a training.

    Args:
        method: what is trained.
        how: see there.
        ranks: who trains.
        total: steps of the whole training.

    Attributes:
        optimisers: whose state a checkpoint keeps.
    """

    def __init__(self, method: Method, how: Optimising, ranks: Ranks, total: int) -> None:
        self._method, self._how, self._ranks, self._total = method, how, ranks, total
        self.optimisers = Optimisers(method.groups(how.learning_rate), how)
        self._full = [float(group["lr"]) for group in self.optimisers.groups]
        self._losses = Averaged(method, ranks)

    def take(self, group: Sequence[Batch], step: int, kept: int) -> dict[str, float]:
        """One step on the batches of this process; figures of them.

        Loss, norm of the gradients before they are clipped, and tokens are of all processes, the
        rest of this one.

        Args:
            step: how many were taken before.
            kept: step of the last checkpoint, for messages.

        Raises:
            BrokenLossError: a loss or a norm that is no number, in any process.
            PrerequisiteError: memory is short.
        """
        share = rate(step, self._total, self._how.warmup, self._how.schedule)
        for settings, full in zip(self.optimisers.groups, self._full, strict=True):
            settings["lr"] = full * share
        try:
            means = self._gradients(group, step)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            tokens = max(len(batch.ids) for batch in group)
            raise PrerequisiteError(
                f"step {step + 1}: out of memory with a batch of {tokens} tokens",
                "train in another folder with a lower train.batch_tokens and a higher "
                "train.accumulate; the data folder can be shared with --data",
            ) from error
        norm = self._clip()
        tokens = sum(len(batch.ids) for batch in group)
        shared = torch.tensor([means["loss"], float(tokens)], dtype=torch.float64)
        loss, tokens_each = self._ranks.mean(shared).tolist()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise BrokenLossError(step + 1, loss, norm, kept, self._how.clip_norm)
        self.optimisers.step()
        return {
            **means,
            "loss": loss,
            "gradient_norm": norm,
            "learning_rate": share * self._full[0],
            "tokens": tokens_each * self._ranks.size,
        }

    def _gradients(self, group: Sequence[Batch], step: int) -> dict[str, float]:
        """Gradients of the mean loss of some batches; means of their figures."""
        self.optimisers.zero_grad()
        means = Means()
        for place, batch in enumerate(group):
            # The batch's number among those of all processes addresses its random numbers.
            number = (step * len(group) + place) * self._ranks.size + self._ranks.rank
            last = place == len(group) - 1
            with nullcontext() if last else self._losses.alone():
                found = self._forward(batch, number)
                (found.loss / len(group)).backward()
            means.add(_figures(found))
        return means.take()

    def _forward(self, batch: Batch, number: int) -> Found:
        if self._how.autocast is None:
            return self._losses(batch, number)
        with torch.autocast(self._ranks.device.type, self._how.autocast):
            return self._losses(batch, number)

    def _clip(self) -> float:
        """Clip gradients; returns their norm before that."""
        trained = [p for p in self._method.module.parameters() if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(trained, self._how.clip_norm or math.inf)
        if self._how.clip_value:
            torch.nn.utils.clip_grad_value_(trained, self._how.clip_value)
        return float(norm)


def _figures(found: Found) -> Mapping[str, float]:
    """What a row of the curves says of a batch."""
    figures: dict[str, Tensor] = {"loss": found.loss.detach()}
    for depth, one in enumerate(found.depths, start=1):
        figures |= {
            f"loss_{depth}": one.loss,
            f"alpha_{depth}": one.alpha,
            f"agreement_{depth}": one.agreement,
        }
    # One wait for the device instead of one per figure.
    values = torch.stack([value.float() for value in figures.values()]).tolist()
    return dict(zip(figures, values, strict=True))
