"""Small trees of drafts: every draw that their children can take, and its chance.

The children of a node are k independent draws (a repeated token is tried again but stays one node),
k draws without replacement, one draw of each of k drafters, or the k most likely tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

from torch import Tensor

from specbench.decoding.tree import ROOT, TrialKind
from specbench.laws.tables import starts


@dataclass(frozen=True, slots=True)
class TreeTable:
    """One setting.

    Attributes:
        name: as results call it.
        target, draft: float32 [V, V], rows by the token before.
        kind: how the children of a node are chosen.
        shape: children per node at depth 1, 2, ...
        temperature: of the target, 1 or 0.
        others: drafts of the second child of a node and those behind it, where every child has a
            drafter of its own (``TrialKind.INDEPENDENT``).
    """

    name: str
    target: Tensor
    draft: Tensor
    kind: TrialKind
    shape: tuple[int, ...]
    temperature: float = 1.0
    others: tuple[Tensor, ...] = ()

    @property
    def drafts(self) -> tuple[Tensor, ...]:
        """Rows of every drafter, in the order of its trials."""
        return self.draft, *self.others

    @property
    def length(self) -> int:
        """Tokens that no fewer than three rounds can emit."""
        return 2 * (len(self.shape) + 1) + 1


@dataclass(frozen=True, slots=True)
class DrawnTree:
    """One tree behind one start, and its chance.

    Attributes:
        start: token before the root's children.
        mass: chance of these draws.
        tokens, parents: of every node.
        trials: (parent, node), in the order in which they are tried.
    """

    start: int
    mass: float = 1.0
    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    trials: tuple[tuple[int, int], ...] = ()

    def token(self, node: int) -> int:
        """The token of a node, or of the root."""
        return self.start if node == ROOT else self.tokens[node]

    def grown(self, parent: int, children: Sequence[int], mass: float) -> DrawnTree:
        """The tree with tried children below ``parent``; equal tokens share a node."""
        tokens, parents, trials = list(self.tokens), list(self.parents), list(self.trials)
        nodes: dict[int, int] = {}
        for token in children:
            if token not in nodes:
                nodes[token] = len(tokens)
                tokens.append(token)
                parents.append(parent)
            trials.append((parent, nodes[token]))
        return replace(
            self,
            mass=self.mass * mass,
            tokens=tuple(tokens),
            parents=tuple(parents),
            trials=tuple(trials),
        )


def children(
    rows: Sequence[Sequence[float]], count: int, kind: TrialKind
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every ordered choice of children below a node, with its chance.

    Args:
        rows: of every drafter; all kinds but one draw from the first alone.
        count: children.
        kind: how they are chosen.
    """
    if kind is not TrialKind.INDEPENDENT:
        yield from choices(rows[0], count, kind)
        return
    for drawn in product(range(len(rows[0])), repeat=count):
        mass = 1.0
        for row, token in zip(rows[:count], drawn, strict=True):
            mass *= row[token]
        if mass > 0:
            yield drawn, mass


def choices(
    row: Sequence[float], count: int, kind: TrialKind
) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every ordered choice of children under one draft row, with its chance.

    Without replacement a row with too few tokens gives as many as it has.

    Raises:
        ValueError: independent draws, which have a row each; see ``children``.
    """
    if kind is TrialKind.INDEPENDENT:
        raise ValueError("independent draws come from a row each, not from one")
    possible = [token for token, p in enumerate(row) if p > 0]
    if kind is TrialKind.IID:
        for drawn in product(possible, repeat=count):
            mass = 1.0
            for token in drawn:
                mass *= row[token]
            yield drawn, mass
    elif kind is TrialKind.WITHOUT_REPLACEMENT:
        for drawn in permutations(possible, min(count, len(possible))):
            mass, left = 1.0, sum(row)
            for token in drawn:
                mass *= row[token] / left
                left -= row[token]
            yield drawn, mass
    else:
        ranked = sorted(range(len(row)), key=lambda token: -row[token])
        yield tuple(ranked[:count]), 1.0


def drawn_trees(table: TreeTable) -> list[DrawnTree]:
    """All trees behind all starts, or behind token 0 alone where the table is context-free."""
    drafts = [draft.double().tolist() for draft in table.drafts]
    found = [DrawnTree(start) for start in starts(table.target, *table.drafts)]
    frontier = [[ROOT] for _ in found]
    for count in table.shape:
        grown: list[DrawnTree] = []
        leaves: list[list[int]] = []
        for tree, open_nodes in zip(found, frontier, strict=True):
            for bigger in _level(tree, open_nodes, drafts, count, table.kind):
                grown.append(bigger)
                leaves.append(list(range(len(tree.tokens), len(bigger.tokens))))
        found, frontier = grown, leaves
    return found


def _level(
    tree: DrawnTree,
    nodes: Sequence[int],
    drafts: list[list[list[float]]],
    count: int,
    kind: TrialKind,
) -> Iterator[DrawnTree]:
    """The tree with one level more, for every choice below each of ``nodes``."""
    if not nodes:
        yield tree
        return
    rows = [draft[tree.token(nodes[0])] for draft in drafts]
    for drawn, mass in children(rows, count, kind):
        yield from _level(tree.grown(nodes[0], drawn, mass), nodes[1:], drafts, count, kind)
