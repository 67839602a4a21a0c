"""Drafts that are trees, built one way for all drafters.

Shapes: B requests, N nodes, R trials, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, Trials, chain


def token_tree(
    tokens: Sequence[Sequence[int]], parents: Sequence[Sequence[int]], device: torch.device
) -> TokenTree:
    """A tree per request from host lists in topological order; chains are told apart."""
    ids = padded(tokens, PAD).to(device)
    counts = tuple(map(len, tokens))
    if all(list(line) == list(range(ROOT, len(line) - 1)) for line in parents):
        return chain(ids, counts)
    return TokenTree(ids, padded(parents, ROOT).to(device), counts, False)


def tree_draft(
    tree: TokenTree,
    law: Sequence[Sequence[int]] | None,
    laws: Tensor | None,
    kind: TrialKind,
    short: Sequence[ShortDraft],
    proposed: Sequence[int],
) -> Draft:
    """A draft whose nodes are tried once each, siblings in node order.

    Args:
        tree: the nodes.
        law: per request and node, the row of the law that its token was drawn from.
        laws: [B, rows, V] laws; None, and ``law`` None, for tokens chosen without chance.
        kind: how siblings were chosen.
        short, proposed: as in ``Draft``.
    """
    node = torch.arange(tree.width, device=tree.ids.device).expand_as(tree.ids)
    rows = node if law is None else padded(law, 0).to(tree.ids.device)
    trials = Trials(tree.parents, torch.where(tree.valid(), node, PAD), rows, kind)
    made = OneHotLaws() if laws is None else DenseLaws(laws)
    return Draft(tree, trials, made, tuple(short), tuple(proposed))


def stopped(
    tree: TokenTree, budget: Sequence[int], short: Sequence[ShortDraft]
) -> list[ShortDraft]:
    """Why paths are short, where the drafter itself ended them before the budget did."""
    return [
        ShortDraft.DRAFTER_STOPPED if why is ShortDraft.NONE and deepest < asked else why
        for why, deepest, asked in zip(short, tree.deepest, budget, strict=True)
    ]


def padded(lines: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Host lists as int64 [len(lines), longest], ``fill`` behind the last of each."""
    width = max(map(len, lines), default=0)
    return torch.tensor(
        [[*line, *[fill] * (width - len(line))] for line in lines], dtype=torch.int64
    ).view(len(lines), width)
