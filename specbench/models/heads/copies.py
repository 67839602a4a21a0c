"""Embeddings and output projections of a head that are the target's own, stored once more."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specbench.models.heads.files import Checkpoint
from specbench.models.heads.plan import Plan
from specbench.models.heads.tensors import load_tensors

_OWN = {
    "embed_tokens.weight": ("model.embed_tokens.weight",),
    "head.weight": ("lm_head.weight", "model.embed_tokens.weight"),
}
"""Canonical name -> the target's, in a checkpoint that holds both; a tied head is the embedding.

A head of some tokens is compared with the target's rows of these.
"""


def without_copies(
    tensors: Mapping[str, Tensor], plan: Plan, checkpoint: Checkpoint
) -> tuple[dict[str, Tensor], list[str]]:
    """Tensors without those that equal the target's in the same checkpoint, and notes on others.

    Args:
        tensors: canonical name -> tensor.
        plan: of an MTP layer; other families share no checkpoint with their target.
        checkpoint: the target's and the layer's.
    """
    kept, notes = dict(tensors), list[str]()
    if plan.family != "mtp":
        return kept, notes
    for name, theirs in _OWN.items():
        there = [n for n in theirs if n in checkpoint]
        if name not in kept or not there:
            continue
        stored = load_tensors(checkpoint, [plan.sources[name], there[0]])
        lent = stored[there[0]]
        if name == "head.weight" and "target_ids" in tensors:
            lent = lent[tensors["target_ids"]]
        if _same(stored[plan.sources[name]], lent):
            del kept[name]
        else:
            notes.append(f"{plan.sources[name]} differs from {there[0]} and is kept")
    return kept, notes


def _same(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)
