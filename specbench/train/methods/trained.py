"""What all methods do with the parameters that they train, and what they report of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from specbench.models.heads.configs import HeadCheckpoint
from specbench.train.losses.divergences import acceptance
from specbench.train.losses.rows import TargetProbs
from specbench.train.methods.method import DepthFound, Found


class Trained:
    """The parts of ``methods.method.Method`` that depend on the parameters alone.

    Attributes:
        module: its parameters with ``requires_grad`` are trained.
    """

    module: nn.Module

    def groups(self, learning_rate: float) -> list[dict[str, object]]:
        """See ``decaying``."""
        return decaying(self.module, learning_rate)

    def state(self) -> dict[str, Tensor]:
        """Trained tensors by name."""
        return trained_tensors(self.module)

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Put trained tensors back."""
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(state[name])

    def nothing(self) -> Found:
        """What comes out of a batch without judged rows: a loss of 0, gradients of 0."""
        return Found(untouched(self.module), [], 0)


def trained_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that are trained, by name, without gradients."""
    return {n: p.detach() for n, p in module.named_parameters() if p.requires_grad}


def untouched(module: nn.Module) -> Tensor:
    """A 0 whose gradients are 0 for every trained parameter.

    Optimisers count steps per parameter, and processes that train together wait for every
    gradient: no parameter may be left out of a step.
    """
    return torch.stack([p.sum() * 0 for p in module.parameters() if p.requires_grad]).sum()


def decaying(module: nn.Module, learning_rate: float) -> list[dict[str, object]]:
    """Groups of the trained parameters: matrices decay, norms and biases do not.

    ``matrices`` marks the group between hidden states: neither embedding nor output projection,
    which have a row per token, nor the stacked matrices of experts.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    vocabularies = {m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)}

    def between(p: nn.Parameter) -> bool:
        return p.dim() == 2 and p.shape[0] not in vocabularies

    common: dict[str, object] = {"lr": learning_rate}
    groups: list[dict[str, object]] = [
        {**common, "params": [p for p in trained if between(p)], "matrices": True},
        {**common, "params": [p for p in trained if p.dim() >= 2 and not between(p)]},
        {**common, "params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


@torch.no_grad()
def judged(loss: Tensor, target: TargetProbs, logits: Tensor) -> DepthFound:
    """Means over rows: the loss, acceptance of a draw, agreement of first choices.

    Args:
        loss: scalar.
        target: M rows.
        logits: [M, Vd].
    """
    agreement = (logits.argmax(1) == target.best).float().mean()
    return DepthFound(loss.detach(), acceptance(target, logits).mean(), agreement)


def owned(checkpoint: HeadCheckpoint) -> HeadCheckpoint:
    """The checkpoint with tensors that can be trained without changing the caller's."""
    tensors = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
    return replace(checkpoint, tensors=tensors)


def with_trained(checkpoint: HeadCheckpoint, state: Mapping[str, Tensor]) -> HeadCheckpoint:
    """The checkpoint with trained tensors in place of those it started from.

    Args:
        checkpoint: experts lie one by one in it.
        state: by the names of the network, where all experts are one tensor: gate above up.
    """
    tensors = dict(checkpoint.tensors)
    for name, tensor in state.items():
        stem, _, last = name.rpartition(".")
        if name in tensors:
            tensors[name] = tensor
        elif last == "down_proj":
            tensors |= {f"{stem}.{n}.down_proj.weight": one for n, one in enumerate(tensor)}
        else:
            assert last == "gate_up_proj", name
            for n, (gate, up) in enumerate(zip(*tensor.chunk(2, 1), strict=True)):
                tensors[f"{stem}.{n}.gate_proj.weight"] = gate
                tensors[f"{stem}.{n}.up_proj.weight"] = up
    assert tensors.keys() == checkpoint.tensors.keys()
    return replace(checkpoint, tensors=tensors)
