"""Medusa checkpoints with random weights, and what they say by definition."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig

HIDDEN, VOCABULARY = 32, 64
"""Of the tiny Llama in ``tests.models.families``."""


def checkpoint(
    projection: str = "own",
    *,
    heads: int = 3,
    blocks: int = 1,
    bias: bool = True,
    target_ids: list[int] | None = None,
    seed: int = 0,
) -> HeadCheckpoint:
    """Heads of the tiny Llama's size; ``target_ids`` are the target's ids of the rows they have."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return 0.3 * torch.randn(*shape, generator=generator)

    rows = VOCABULARY if target_ids is None else len(target_ids)
    tensors: dict[str, Tensor] = {}
    for head in range(heads):
        for block in range(blocks):
            tensors[f"heads.{head}.blocks.{block}.weight"] = noise(HIDDEN, HIDDEN)
            if bias:
                tensors[f"heads.{head}.blocks.{block}.bias"] = noise(HIDDEN)
        if projection == "own":
            tensors[f"heads.{head}.projection.weight"] = noise(rows, HIDDEN)
    if projection == "one":
        tensors["projection.weight"] = noise(rows, HIDDEN)
    if target_ids is not None:
        tensors["target_ids"] = torch.tensor(target_ids)
    config = MedusaConfig(HIDDEN, VOCABULARY, rows, heads, blocks, projection, bias)
    return HeadCheckpoint("medusa", "made here", config, tensors, name="random heads")


def defined(made: HeadCheckpoint, hidden: Tensor, lent: Tensor | None = None) -> Tensor:
    """Logits float64 [heads, V] behind one hidden state [H], head by head, from the formula.

    Args:
        lent: [V, H] the target's output projection.
    """
    config, tensors = made.config, {k: v.double() for k, v in made.tensors.items()}
    rows = []
    for head in range(config.heads):
        x = hidden.double()
        for block in range(config.blocks):
            y = tensors[f"heads.{head}.blocks.{block}.weight"] @ x
            y = y + tensors.get(f"heads.{head}.blocks.{block}.bias", 0.0)
            x = x + y / (1 + torch.exp(-y))
        if config.projection == "target":
            logits = lent.double() @ x
        elif config.projection == "one":
            logits = tensors["projection.weight"] @ x
        else:
            logits = tensors[f"heads.{head}.projection.weight"] @ x
        if "target_ids" in made.tensors:
            wide = torch.full((config.vocabulary,), -torch.inf, dtype=torch.float64)
            for row, token in enumerate(made.tensors["target_ids"].tolist()):
                wide[token] = logits[row]
            logits = wide
        rows.append(logits)
    return torch.stack(rows)
