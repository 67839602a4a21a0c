"""Several chains per request as one tree: what they begin with in common becomes one path.

Only the nodes are merged. Two draws that gave the same token stay two draws (Miao et al.
2305.09781, section 4.3), so the place of every drafted token is handed back.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.decoding.tree import PAD, ROOT, TokenTree, chain

Chains = Sequence[Sequence[int]]
"""Drafted ids of one request: one list per drafter, of any length."""


def merged(
    chains: Sequence[Chains], device: torch.device
) -> tuple[TokenTree, list[list[list[int]]]]:
    """The tree of all prefixes of the chains, and where every token went.

    Args:
        chains: per request, its chains.
        device: of the tree.

    Returns:
        The tree; nodes are in the order in which they first occur, so a parent precedes its
        children. And per request and chain the node of every token.

    Raises:
        ValueError: a negative id, which names no token.
    """
    ids: list[list[int]] = []
    parents: list[list[int]] = []
    places: list[list[list[int]]] = []
    for request in chains:
        nodes: dict[tuple[int, int], int] = {}
        place = []
        for line in request:
            here, path = ROOT, []
            for token in line:
                if token < 0:
                    raise ValueError(f"drafted id {token}")
                here = nodes.setdefault((here, token), len(nodes))
                path.append(here)
            place.append(path)
        ids.append([token for _, token in nodes])
        parents.append([parent for parent, _ in nodes])
        places.append(place)
    counts = tuple(len(line) for line in ids)
    width = max(counts, default=0)
    table = torch.full((len(ids), width), PAD, dtype=torch.int64)
    above = torch.full((len(ids), width), ROOT, dtype=torch.int64)
    for b, count in enumerate(counts):
        table[b, :count] = torch.tensor(ids[b])
        above[b, :count] = torch.tensor(parents[b])
    if all(line == list(range(ROOT, len(line) - 1)) for line in parents):
        return chain(table.to(device), counts), places
    return TokenTree(table.to(device), above.to(device), counts, False), places
