"""From per-node tests on trees to the longest way of passed nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.protocols import BONUS, RECOVERED, Acceptance
from specbench.decoding.tree import PAD, ROOT, TokenTree


def longest(tree: TokenTree, passed: Tensor, value: Tensor, choices: Tensor) -> Acceptance:
    """The way with most nodes that all passed; among equals the one of largest value.

    The next token is a bonus where the way ends at a leaf.

    Args:
        tree: trees, B requests, N nodes.
        passed: bool [B, N] each node's own test; holes never pass, whatever it says.
        value: [B, N], summed over a way to tell ways of one length apart.
        choices: int64 [B, N + 1], the token that follows the root and every node.
    """
    passed = passed & tree.valid()
    above = tree.parents.clamp(min=0)
    best = torch.full((len(tree.ids),), ROOT, device=tree.ids.device)
    count = torch.zeros_like(best)
    level = passed & (tree.parents == ROOT)
    total = torch.where(level, value, -torch.inf)
    while bool((reached := level.any(1)).any()):
        best = torch.where(reached, total.argmax(1), best)
        count = count + reached
        level = passed & (tree.parents >= 0) & level.gather(1, above)
        total = torch.where(level, total.gather(1, above) + value, -torch.inf)

    path = torch.full((len(best), tree.width + 1), PAD, device=best.device)
    node = best
    for depth in reversed(range(int(count.max()))):
        on_it = depth < count
        path[:, depth] = torch.where(on_it, node, PAD)
        up = tree.parents.gather(1, node.clamp(min=0)[:, None]).squeeze(1)
        node = torch.where(on_it, up, node)
    real = torch.arange(tree.width, device=best.device) < torch.tensor(
        tree.counts, device=best.device
    ).unsqueeze(1)
    inner = (real & (tree.parents == best[:, None])).any(1)
    next_token = choices.gather(1, best[:, None] + 1).squeeze(1)
    return Acceptance(path, count, next_token, torch.where(inner, RECOVERED, BONUS))
