"""From per-node tests on a chain to the accepted prefix, shared by the chain rules."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, RECOVERED
from specbench.decoding.rows import TargetRows
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import PAD, TokenTree, Trials


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
    path, kind = prefix(tree, count)
    return path, count, kind


def prefix(tree: TokenTree, count: Tensor) -> tuple[Tensor, Tensor]:
    """Path int64 [B, N + 1] and kind int64 [B] of chains of which ``count`` nodes are accepted."""
    slots = torch.arange(tree.width + 1, device=count.device)
    path = torch.where(slots[None, :] < count[:, None], slots[None, :], PAD)
    # A hole (-1 inside the draft) is a rejection like any other; only the end is a bonus.
    # Where all chains are full nothing is sent, as a capture of this must not.
    full = set(tree.counts) <= {tree.width}
    total = tree.width if full else to_device(torch.tensor(tree.counts), count.device)
    return path, torch.where(count >= total, BONUS, RECOVERED)


def drafted(
    tree: TokenTree, trials: Trials, rows: TargetRows, laws: DraftLaws
) -> tuple[Tensor, Tensor]:
    """Ids int64 [B, N] that index a row safely, and their draft probabilities float32 [B, N].

    The probability is 0 where the law cannot have given the id: a hole, an id out of range, or one
    of no mass. Such a draft is rejected and replaced by the target's own token.
    """
    inside = (tree.ids >= 0) & (tree.ids < rows.raw.shape[1])
    ids = torch.where(inside, tree.ids, 0)
    return ids, torch.where(inside, laws.token_probs(ids, trials.law), 0.0)
