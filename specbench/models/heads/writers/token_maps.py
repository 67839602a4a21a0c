"""The map of a smaller draft vocabulary as EAGLE-3's files hold it (case E2)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.layouts.token_maps import MEMBERSHIP, OFFSETS


def offsets_of(tensors: Mapping[str, Tensor], vocabulary: int) -> dict[str, Tensor]:
    """``d2t`` int64 [Vd], offsets, and ``t2d`` bool [V], membership; empty without a map.

    Args:
        tensors: of a ``HeadCheckpoint``.
        vocabulary: V.

    Raises:
        UsageError: token ids that do not rise, which offsets cannot say.
    """
    ids = tensors.get("target_ids")
    if ids is None:
        return {}
    if bool((ids.diff() <= 0).any()):
        raise UsageError(
            "this layout keeps its map of draft tokens as offsets, which need rising token ids",
            "sort the rows of the head by token id, or for Medusa use layout vllm",
        )
    mask = torch.zeros(vocabulary, dtype=torch.bool).index_fill(0, ids, True)
    return {OFFSETS: ids - torch.arange(len(ids)), MEMBERSHIP: mask}


def stated(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """What a configuration says about a map; empty without one."""
    ids = tensors.get("target_ids")
    return {} if ids is None else {"draft_vocab_size": len(ids)}
