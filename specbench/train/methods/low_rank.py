"""Low-rank adapters on linear layers (LoRA, Hu et al. 2106.09685, section 4.1).

y = W x + b + B A x with A [r, in] random and B [out, r] zero at first, so that training starts at
the model as it is. The scale alpha / r is 1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from specbench.errors import UsageError


class LowRank(nn.Module):
    """A linear layer that stays as it is, and what is trained beside it, in float32.

    Args:
        base: the layer.
        rank: r.
        chance: draws A.
    """

    def __init__(self, base: nn.Linear, rank: int, chance: torch.Generator) -> None:
        super().__init__()
        self.base = base
        rows, columns, device = base.out_features, base.in_features, base.weight.device
        spread = columns**-0.5
        drawn = (2 * torch.rand(rank, columns, generator=chance) - 1) * spread
        self.down = nn.Parameter(drawn.to(device))
        self.up = nn.Parameter(torch.zeros(rows, rank, device=device))

    def forward(self, rows: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        lowered = functional.linear(rows.to(self.down.dtype), self.down)
        own = self.base(rows)
        return own + functional.linear(lowered, self.up).to(own.dtype)

    def merged(self) -> Tensor:
        """[out, in] the one matrix that does the same, in the layer's own type."""
        weight = self.base.weight.detach()
        return (weight.float() + self.up.detach() @ self.down.detach()).to(weight.dtype)


def adapt(model: Any, rank: int, seed: int) -> None:
    """Put an adapter on every linear layer of a model's decoder layers: attention and MLP.

    Raises:
        UsageError: there is none; they are packed or quantised.
    """
    chance = torch.Generator().manual_seed(seed)
    found = [
        (module, name, child)
        for module in model.base_model.layers.modules()
        for name, child in module.named_children()
        if type(child) is nn.Linear
    ]
    if not found:
        raise UsageError(
            "the target has no plain linear layers that adapters could be put on",
            "train with a target that is not quantised",
        )
    for module, name, child in found:
        setattr(module, name, LowRank(child, rank, chance))


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by their own names, with the adapters inside."""
    state = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, LowRank):
            del state[f"{name}.down"], state[f"{name}.up"], state[f"{name}.base.weight"]
            state[f"{name}.weight"] = module.merged()
            if (bias := state.pop(f"{name}.base.bias", None)) is not None:
                state[f"{name}.bias"] = bias
    return state
