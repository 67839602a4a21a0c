"""What changes the weights: AdamW for all of them, or Muon for the matrices between hidden states.

Muon (Jordan and others, 2024) makes every step on a matrix one whose singular values are all about
1, so that directions with small gradients are learned as fast as those with large ones. It is
scaled to the size of AdamW's steps (Liu and others 2502.16982, section 2.2), so that one learning
rate serves both. Embeddings, output projections, norms and biases stay with AdamW.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.train.loop.settings import Optimising

MOMENTS = ("step", "exp_avg", "exp_avg_sq", "momentum_buffer")
"""What they keep of a parameter: the first three AdamW, the last Muon."""


class Optimisers:
    """AdamW, and Muon beside it where a training asks for it.

    Args:
        groups: of all parameters, see ``methods.trained.decaying``.
        how: names the optimiser and its settings.
    """

    def __init__(self, groups: Sequence[Mapping[str, object]], how: Optimising) -> None:
        with_muon = [dict(g) for g in groups if how.optimiser == "muon" and g.get("matrices")]
        rest = [dict(g) for g in groups if not (how.optimiser == "muon" and g.get("matrices"))]
        common: dict[str, Any] = {"lr": how.learning_rate, "weight_decay": how.weight_decay}
        self._parts: list[torch.optim.Optimizer] = []
        if with_muon:
            scaled = "match_rms_adamw"
            self._parts.append(torch.optim.Muon(with_muon, adjust_lr_fn=scaled, **common))
        if rest:
            self._parts.append(torch.optim.AdamW(rest, betas=how.betas, **common))

    @property
    def groups(self) -> list[dict[str, Any]]:
        """All groups of parameters; their ``lr`` may be set."""
        return [group for part in self._parts for group in part.param_groups]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for part in self._parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        """Change the weights."""
        for part in self._parts:
            part.step()

    def kept(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is kept of a parameter; nothing before the first step."""
        kept = self._of(parameter).state.get(parameter, {})
        return {moment: kept[moment] for moment in MOMENTS if moment in kept}

    def restore(self, parameter: Tensor, kept: Mapping[str, Tensor]) -> None:
        """Put back what ``kept`` gave."""
        # The number of steps stays on the host, where AdamW keeps it.
        self._of(parameter).state[parameter] = {
            moment: tensor if moment == "step" else tensor.to(parameter.device)
            for moment, tensor in kept.items()
        }

    def _of(self, parameter: Tensor) -> torch.optim.Optimizer:
        for part in self._parts:
            if any(parameter is p for group in part.param_groups for p in group["params"]):
                return part
        raise KeyError("a parameter that is not trained")
