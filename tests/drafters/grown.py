"""Growing over rows that are any function of the path, without a model or KV."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.grow.advance import Frontier
from specbench.drafters.grow.growth import Growth
from specbench.models.kv_pool import KVPool
from tests.toys import request, sequence

Path = tuple[int, ...]
Rows = Callable[[int, Path], Sequence[float]]
"""(request, path) -> the draft's logits behind it."""


def random_rows(salt: int, vocabulary: int, grain: float = 0.0) -> Rows:
    """Rows that look random but depend on request and path alone; ``grain`` makes ties."""

    def row(b: int, path: Path) -> list[float]:
        line = 1.5 * np.random.default_rng([salt, b, *path]).normal(size=vocabulary)
        line = np.round(line / grain) * grain if grain else line
        return line.astype(np.float32).tolist()

    return row


@dataclass
class Advanced:
    """Implements ``grow.advance.Advance`` and keeps the paths that were processed, in order."""

    rows: Rows
    paths: dict[int, list[Path]] = field(default_factory=dict)
    calls: int = 0
    widest: int = 0

    def __call__(self, frontier: Frontier) -> Tensor:
        """Logits [n, V]."""
        self.calls += 1
        assert list(frontier.owner) == sorted(frontier.owner)
        self.widest = max(self.widest, *Counter(frontier.owner).values())
        found = []
        before = {owner: list(paths) for owner, paths in self.paths.items()}
        for owner, parent, token in zip(
            frontier.owner, frontier.parent, frontier.tokens.tolist(), strict=True
        ):
            above = before[owner][parent] if parent >= 0 else ()
            path = (*above, token)
            assert len(path) == frontier.depth
            self.paths.setdefault(owner, []).append(path)
            found.append(list(self.rows(owner, path)))
        return torch.tensor(found)


@dataclass
class Grown:
    """A draft and what it cost."""

    draft: Draft
    advanced: Advanced

    def paths(self, b: int) -> list[Path]:
        """Token paths of one request's nodes, in node order."""
        tree = self.draft.tree
        ids, parents = tree.ids[b].tolist(), tree.parents[b].tolist()
        found: list[Path] = []
        for node in range(tree.counts[b]):
            above = found[parents[node]] if parents[node] >= 0 else ()
            found.append((*above, ids[node]))
        return found


def requests(temperatures: Sequence[float], seeds: Sequence[int] = (), **sampling: float):
    """One sequence per temperature, with one committed token each."""
    pool = KVPool(len(temperatures), 4, torch.float32, torch.device("cpu"))
    seeds = seeds or range(len(temperatures))
    return [
        sequence(request([1], 2, temperature=t, seed=seed, **sampling), pool)
        for t, seed in zip(temperatures, seeds, strict=True)
    ]


def grow(
    growth: Growth, batch: Sequence[DecodedSequence], budget: Sequence[int], rows: Rows
) -> Grown:
    """Grow one draft per request."""
    advanced = Advanced(rows)
    first = torch.tensor([list(rows(b, ())) for b in range(len(batch))])
    draft = growth.grow(batch, budget, first, advanced, [ShortDraft.NONE] * len(batch))
    assert max(draft.tree.counts) <= growth.nodes(max(budget)) <= growth.room(max(budget))
    assert advanced.widest <= growth.level(max(budget))
    assert max(map(len, advanced.paths.values()), default=0) <= growth.room(max(budget))
    return Grown(draft, advanced)


Row = Callable[[Path], Sequence[float]]
"""Path -> the draft's logits behind it."""


def by_rank(row: Row, ranks: Sequence[int]) -> Path:
    """Path of the tokens at given ranks: falling logit, of equals the lowest id first."""
    path: Path = ()
    for rank in ranks:
        path = (*path, _ranked(row(path))[rank])
    return path


def chances(row: Row, path: Path) -> list[float]:
    """Log-probabilities at temperature 1."""
    return torch.log_softmax(torch.tensor(row(path)), 0).tolist()


def best_paths(row: Row, nodes: int, top_k: int, depth: int) -> tuple[list[Path], int]:
    """Nodes of a dynamic tree from its definition, and how many candidates were recorded.

    The score of a path is the sum of its log-probabilities.
    """
    scores: dict[Path, float] = {(): 0.0}
    frontier: list[Path] = [()]
    recorded: list[Path] = []
    for _ in range(depth):
        level: list[Path] = []
        for above in frontier:
            line = chances(row, above)
            for token in _ranked(line)[:top_k]:
                if line[token] > -math.inf:
                    level.append((*above, token))
                    scores[level[-1]] = scores[above] + line[token]
        recorded += level
        frontier = sorted(level, key=lambda path: -scores[path])[:top_k]
    best = set(sorted(recorded, key=lambda path: -scores[path])[:nodes])
    return [path for path in recorded if path in best], len(recorded)


def _ranked(line: Sequence[float]) -> list[int]:
    return sorted(range(len(line)), key=lambda x: (-line[x], x))
