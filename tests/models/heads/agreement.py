"""A head over the pool against its reference, on true features, a tree, a chain and a refill."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from specbench.drafters.grow.advance import Frontier
from specbench.drafters.grow.packed import Scratch
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.load import LoadedModel
from specbench.models.packed_batch import Segment, pack

TOLERANCE = 1e-4
# 0 -> {2, 3}, 3 -> 5; 1 -> 4: both children of the root, three levels.
TREE = [-1, -1, 0, 0, 1, 3]
CHAIN = [-1, 0, 1]


def drafted(
    reference: Any, features: Tensor, ids: Sequence[int], tokens: Sequence[int], parents: list[int]
) -> Tensor:
    """Logits [1 + nodes, V] behind the last true slot and behind every node, all from scratch.

    Args:
        features: [n, F] of the true slots.
        ids: the token behind each of them.
        tokens, parents: of the nodes; a parent of -1 is the last true slot.
    """
    count = len(ids)
    hidden = list(reference.begin(features))
    line, positions = list(ids), list(range(count))
    visible = torch.ones(count, count, dtype=torch.bool).tril()

    def states() -> Tensor:
        where = torch.tensor(positions)
        return reference.states(torch.tensor(line), torch.stack(hidden), where, visible)

    for token, parent in zip(tokens, parents, strict=True):
        slot = count + parent if parent >= 0 else count - 1
        hidden.append(reference.recycle(states(), torch.stack(hidden))[slot])
        line.append(token)
        positions.append(positions[slot] + 1)
        size = len(visible)
        wider = torch.zeros(size + 1, size + 1, dtype=torch.bool)
        wider[:size, :size] = visible
        wider[size] = wider[slot]
        wider[size, size] = True
        visible = wider
    return widened(reference, reference.logits(states()[count - 1 :]))


def widened(reference: Any, logits: Tensor) -> Tensor:
    """In the target's vocabulary, -inf for what the head does not know."""
    if reference.ids is None:
        return logits
    wide = torch.full((len(logits), len(reference.embedding)), -torch.inf)
    for row, token in enumerate(reference.ids.tolist()):
        wide[:, token] = logits[:, row]
    return wide


class Runner:
    """A head with KV in a pool; remembers what the next step of every slab takes."""

    def __init__(self, checkpoint: HeadCheckpoint, target: LoadedModel, prepack: bool = False):
        network = build_feature_head(checkpoint, target, prepack=prepack)
        self.head = PackedHead(network, "head", target.config.vocab_size)
        pool = KVPool(4, 32, torch.float32, torch.device("cpu"))
        pool.add_owner("head", self.head.geometry())
        self.head.use(pool)
        self.carried: dict[int, Tensor] = {}

    def feed(self, fed: dict[int, tuple[int, Tensor, list[int]]]) -> dict[int, Tensor]:
        """True slots (start, features, ids) of every slab; the last row's logits of each."""
        segments = [Segment(slab, start, len(ids)) for slab, (start, _, ids) in fed.items()]
        ids = torch.tensor([token for _, _, line in fed.values() for token in line])
        features = torch.cat([part for _, part, _ in fed.values()])
        logits, recycled = self.head.forward(pack(segments, ids, "last"), features, fresh=True)
        ends = torch.tensor([s.count for s in segments]).cumsum(0) - 1
        for slab, end in zip(fed, ends.tolist(), strict=True):
            self.carried[slab] = recycled[end]
        return dict(zip(fed, logits, strict=True))

    def grow(self, grown: dict[int, tuple[int, list[int], list[int]]]) -> dict[int, Tensor]:
        """Nodes (true slots before, tokens, parents) of every slab: logits [nodes, V] of each."""
        scratch = Scratch(
            [SimpleNamespace(slab=s) for s in grown], [n for n, _, _ in grown.values()]
        )
        outputs: dict[int, list[Tensor]] = {slab: [] for slab in grown}
        hidden: dict[int, list[Tensor]] = {slab: [] for slab in grown}
        level = 0
        while True:
            level += 1
            chosen = [
                (place, slab, node)
                for place, (slab, (_, _, parents)) in enumerate(grown.items())
                for node in range(len(parents))
                if _depth(parents, node) == level
            ]
            if not chosen:
                return {slab: torch.stack(rows) for slab, rows in outputs.items()}
            parents = [grown[slab][2][node] for _, slab, node in chosen]
            tokens = torch.tensor([grown[slab][1][node] for _, slab, node in chosen])
            entering = [
                self.carried[slab] if parent < 0 else hidden[slab][parent]
                for (_, slab, _), parent in zip(chosen, parents, strict=True)
            ]
            owners = [place for place, _, _ in chosen]
            segments = scratch.segments(Frontier(owners, tokens, parents, level))
            logits, recycled = self.head.forward(
                pack(segments, tokens, "all"), torch.stack(entering), fresh=False
            )
            for (_, slab, _), row, state in zip(chosen, logits, recycled, strict=True):
                outputs[slab].append(row)
                hidden[slab].append(state)


def _depth(parents: list[int], node: int) -> int:
    depth = 1
    while parents[node] >= 0:
        node, depth = parents[node], depth + 1
    return depth


def largest_difference(
    checkpoint: HeadCheckpoint, target: LoadedModel, reference: Any, prepack: bool = False
) -> float:
    """Over two requests of different length in one batch: refills, a tree, a chain, a refill.

    Nodes are listed level by level, so a node's place is the place in which it is processed.
    """
    chance = torch.Generator().manual_seed(3)
    width = len(checkpoint.config.taps) * target.config.hidden_size
    features = torch.randn(2, 14, width, generator=chance)
    ids = torch.randint(3, target.config.vocab_size, (2, 14), generator=chance).tolist()
    nodes = torch.randint(3, target.config.vocab_size, (9,), generator=chance).tolist()
    runner = Runner(checkpoint, target, prepack)
    runner.feed({2: (0, features[0, :6], ids[0][:6]), 0: (0, features[1, :5], ids[1][:5])})
    first = runner.feed({2: (6, features[0, 6:9], ids[0][6:9])})[2]
    grown = runner.grow({2: (9, nodes[:6], TREE), 0: (5, nodes[6:], CHAIN)})
    # The next round: true slots where scratch rows were, two for one request, four for the other.
    last = runner.feed(
        {0: (5, features[1, 5:9], ids[1][5:9]), 2: (9, features[0, 9:11], ids[0][9:11])}
    )
    again = runner.grow({2: (11, nodes[:3], CHAIN), 0: (9, nodes[3:5], [-1, -1])})
    cases = [
        (torch.cat([first[None], grown[2]]), features[0, :9], ids[0][:9], nodes[:6], TREE),
        (grown[0], features[1, :5], ids[1][:5], nodes[6:], CHAIN),
        (torch.cat([last[2][None], again[2]]), features[0, :11], ids[0][:11], nodes[:3], CHAIN),
        (torch.cat([last[0][None], again[0]]), features[1, :9], ids[1][:9], nodes[3:5], [-1, -1]),
    ]
    worst = 0.0
    for got, *given in cases:
        expected = drafted(reference, *given)[-len(got) :]
        known = expected != -torch.inf
        assert torch.equal(got != -torch.inf, known)
        assert float(expected[known].std()) > 0.1
        worst = max(worst, float((got[known] - expected[known]).abs().max()))
    return worst
