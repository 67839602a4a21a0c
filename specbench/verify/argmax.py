"""Following the token chosen at every position: greedy decoding, and match with a draw."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Acceptance, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, ROOT, TokenTree, Trials
from specbench.verify.chain import accepted_prefix

Choose = Callable[[Tensor, Tensor], Tensor]
"""``(requests, positions)``, int64 [n] each, position 0 = root and 1 + node -> tokens [n]."""


def follow(tree: TokenTree, choices: Tensor) -> Acceptance:
    """Walk from the root to the child that equals the choice at its parent, as far as there is one.

    Args:
        tree: chains or trees, B requests, N nodes.
        choices: int64 [B, N + 1], the token chosen behind the root and behind every node.
    """
    if not tree.chain:
        return descend(tree, lambda request, position: choices[request, position])
    path, count, kind = accepted_prefix(tree, tree.ids == choices[:, :-1])
    return Acceptance(path, count, choices.gather(1, count[:, None]).squeeze(1), kind)


def descend(tree: TokenTree, choose: Choose) -> Acceptance:
    """``follow`` on trees, with choices made only where a request's walk comes to."""
    batch, device = len(tree.ids), tree.ids.device
    here = torch.full((batch,), ROOT, device=device)
    count = torch.zeros_like(here)
    path = torch.full((batch, tree.width + 1), PAD, device=device)
    leaf = torch.ones_like(here, dtype=torch.bool)
    real = (
        torch.arange(tree.width, device=device) < torch.tensor(tree.counts, device=device)[:, None]
    )
    going = torch.arange(batch, device=device)
    wanted = choose(going, torch.zeros_like(going))
    for depth in range(tree.width + 1):
        children = (tree.parents[going] == here[going, None]) & real[going]
        ids = tree.ids[going]
        # A hole is a child that never matches: what follows it is a recovered token.
        matching = children & (ids >= 0) & (ids == wanted[going, None])
        leaf[going] = ~children.any(1)
        found = matching.any(1)
        going, matching = going[found], matching[found]
        if not len(going):
            break
        # Candidates may repeat a token; the first one stands for all.
        here[going] = path[going, depth] = matching.long().argmax(1)
        count[going] += 1
        wanted[going] = choose(going, here[going] + 1)
    return Acceptance(path, count, wanted, torch.where(leaf, BONUS, RECOVERED))


def first_choices(tree: TokenTree, rows: TargetRows) -> Acceptance:
    """Longest path of target argmaxes (lowest id on ties); the next token is the argmax after."""
    if tree.chain:
        return follow(tree, rows.argmax())

    def choose(request: Tensor, position: Tensor) -> Tensor:
        return rows.adjusted_rows(rows.index[request, position].tolist()).argmax(1)

    return descend(tree, choose)


def greedy(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """``first_choices`` as a rule."""
    return first_choices(tree, rows), states
