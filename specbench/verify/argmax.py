"""Following the token chosen at every position: greedy decoding, and match with a draw."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Acceptance, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, ROOT, TokenTree, Trials
from specbench.verify.chain import accepted_prefix


def follow(tree: TokenTree, choices: Tensor) -> Acceptance:
    """Walk from the root to the child that equals the choice at its parent, as far as there is one.

    Args:
        tree: chains or trees, B requests, N nodes.
        choices: int64 [B, N + 1], the token chosen behind the root and behind every node.
    """
    if tree.chain:
        path, count, kind = accepted_prefix(tree, tree.ids == choices[:, :-1])
        return Acceptance(path, count, choices.gather(1, count[:, None]).squeeze(1), kind)
    batch = len(tree.ids)
    here = torch.full((batch,), ROOT, device=tree.ids.device)
    count = torch.zeros_like(here)
    path = torch.full((batch, tree.width + 1), PAD, device=tree.ids.device)
    leaf = torch.ones_like(here, dtype=torch.bool)
    nodes = torch.arange(tree.width, device=here.device)
    real = nodes < torch.tensor(tree.counts, device=here.device)[:, None]
    for depth in range(tree.width + 1):
        wanted = choices.gather(1, here[:, None] + 1)
        children = (tree.parents == here[:, None]) & real & (count == depth)[:, None]
        # A hole is a child that never matches: what follows it is a recovered token.
        matching = children & tree.valid() & (tree.ids == wanted)
        found = matching.any(1)
        leaf = torch.where(count == depth, ~children.any(1), leaf)
        # Candidates may repeat a token; the first one stands for all.
        node = matching.long().argmax(1)
        here = torch.where(found, node, here)
        path[:, depth] = torch.where(found, node, path[:, depth])
        count = count + found
        if not bool(found.any()):
            break
    kind = torch.where(leaf, BONUS, RECOVERED)
    return Acceptance(path, count, choices.gather(1, here[:, None] + 1).squeeze(1), kind)


def greedy(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Longest path of target argmaxes (lowest id on ties); the next token is the argmax after."""
    return follow(tree, rows.argmax()), states
