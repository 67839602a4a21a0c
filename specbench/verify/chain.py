"""From per-node tests on a chain to the accepted prefix, shared by the chain rules."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.protocols import BONUS, RECOVERED
from specbench.decoding.tree import PAD, TokenTree


def accepted_prefix(tree: TokenTree, passed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Leading nodes that all passed.

    Args:
        tree: chains, B requests, N nodes.
        passed: bool [B, N] each node's own test; holes never pass, whatever it says.

    Returns:
        path int64 [B, N + 1] padded with -1, n_accepted int64 [B], and kind int64 [B].
    """
    passed = passed & tree.valid()
    count = passed.long().cumprod(1).sum(1)
    slots = torch.arange(tree.width + 1, device=count.device)
    path = torch.where(slots[None, :] < count[:, None], slots[None, :], PAD)
    # A hole (-1 inside the draft) is a rejection like any other; only the end is a bonus.
    total = torch.tensor(tree.counts, device=count.device)
    return path, count, torch.where(count >= total, BONUS, RECOVERED)
