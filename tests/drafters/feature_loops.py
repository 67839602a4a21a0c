"""Drafters of features in the real loop, watched level by level and compared step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from specbench.core.request import Request
from specbench.decoding.protocols import Tap
from specbench.decoding.schedule import IN_ORDER, Schedule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.growth import Growth
from specbench.drafters.none import NoDrafter
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.feature_reference import Reference, defined
from tests.drafters.packed_loops import decode_packed
from tests.oracle import Continuation, from_outputs
from tests.planting import Plant, Steered
from tests.toys import sequence

CONTEXT = 96
CPU = torch.device("cpu")

PROMPTS = [[(7 * i + 3 * j) % 61 + 1 for j in range(1 + i % 4)] for i in range(14)]
"""Enough, and of different lengths, for every accepted length to come up often."""

Steering = Callable[[DecodedSequence, int], object]
GrowthOf = Callable[[DraftRows], Growth]
Build = Callable[[KVPool], FeatureDrafter]


@dataclass
class Level:
    """Rows that a growth read: whose, behind which drafted tokens, and the logits."""

    owners: list[int]
    paths: list[list[int]]
    logits: Tensor


@dataclass
class Watched:
    """A growth that keeps what it read in its last step."""

    inner: Growth
    levels: list[Level] = field(default_factory=list)

    def room(self, k):
        return self.inner.room(k)

    def grow(self, rows, budget, first, advance, short):
        active = [b for b, room in enumerate(budget) if room > 0]
        self.levels = [Level(active, [[]] * len(active), first[active])]
        processed: list[list[list[int]]] = [[] for _ in rows]

        def watched(frontier):
            logits = advance(frontier)
            paths = [
                [*(processed[owner][parent] if parent >= 0 else []), token]
                for owner, parent, token in zip(
                    frontier.owner, frontier.parent, frontier.tokens.tolist(), strict=True
                )
            ]
            for owner, path in zip(frontier.owner, paths, strict=True):
                assert len(path) == frontier.depth
                processed[owner].append(path)
            self.levels.append(Level(list(frontier.owner), paths, logits))
            return logits

        return self.inner.grow(rows, budget, first, watched, short)


def building(
    network: Any,
    growth: GrowthOf,
    width: int,
    context: int = CONTEXT,
    kind: type[FeatureDrafter] = FeatureDrafter,
) -> Build:
    """Makes drafters over a network, each with KV of its own in the pool it is given."""

    def build(pool: KVPool) -> FeatureDrafter:
        head = PackedHead(network, "head", width)
        pool.add_owner(head.owner, head.geometry(), head.dtype)
        head.use(pool)
        return kind(head, Watched(growth(DraftRows(width))), context)

    return build


def features_of(
    model: Any, rows: Sequence[DecodedSequence], taps: Sequence[Tap]
) -> dict[Tap, Tensor]:
    """Taps of a fresh forward over every committed token but the last of each request."""
    counts = [row.length - 1 for row in rows]
    pool = KVPool(len(rows), max(counts), torch.float32, CPU)
    target = PackedModel(model, "fresh")
    pool.add_owner("fresh", target.geometry())
    target.use(pool)
    segments = [Segment(place, 0, count) for place, count in enumerate(counts)]
    ids = torch.cat([torch.tensor(row.tokens[:-1]) for row in rows])
    return target.forward(pack(segments, ids, "none"), taps)[1]


class Compared:
    """Compares each proposal with that of a drafter that has just seen the committed prefix.

    Args:
        inner: the drafter, over a ``Watched`` growth.
        fresh: makes one like it.
        model: the target's weights.
        reference: the head as it is defined; every row that was read is compared with it too.
    """

    def __init__(
        self, inner: FeatureDrafter, fresh: Build, model: Any, reference: Reference | None = None
    ) -> None:
        self.inner = inner
        self._fresh = fresh
        self._model = model
        self._reference = reference
        self.compared = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def propose(self, rows, budget):
        """The inner drafter's draft, after the comparison."""
        draft = self.inner.propose(rows, budget)
        if max(budget) > 0:
            pool = KVPool(len(rows), CONTEXT, torch.float32, CPU)
            fresh = self._fresh(pool)
            copies = [copy_of(row, pool) for row in rows]
            taps = features_of(self._model, copies, fresh.taps)
            fresh.admit(copies, taps)
            same_draft(draft, fresh.propose(copies, budget))
        if any(draft.tree.counts):
            same_rows(self.inner._growth.levels, fresh._growth.levels)
            self._defined(rows, taps)
            self.compared += sum(count > 0 for count in draft.tree.counts)
        return draft

    def _defined(self, rows, taps):
        if self._reference is None:
            return
        joined = torch.cat([taps[tap] for tap in self.inner.taps], -1)
        features = joined.split([row.length - 1 for row in rows])
        for level in self.inner._growth.levels:
            for owner, path, logits in zip(level.owners, level.paths, level.logits, strict=True):
                tokens = rows[owner].tokens.tolist()
                wanted = defined(self._reference, features[owner], tokens, path, len(logits))
                torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=1e-4)


def same_draft(draft, expected):
    """The same nodes, tried in the same order, from the same laws."""
    assert draft.tree.counts == expected.tree.counts
    assert torch.equal(draft.tree.ids, expected.tree.ids)
    assert torch.equal(draft.tree.parents, expected.tree.parents)
    assert torch.equal(draft.trials.node, expected.trials.node)
    assert draft.proposed == expected.proposed
    assert draft.short == expected.short
    assert hasattr(draft.laws, "rows") is hasattr(expected.laws, "rows")
    if hasattr(draft.laws, "rows"):
        torch.testing.assert_close(draft.laws.rows, expected.laws.rows, atol=1e-4, rtol=1e-4)


def same_rows(levels, expected):
    """The same logits behind the same drafted tokens."""
    for mine, theirs in zip(levels, expected, strict=True):
        assert (mine.owners, mine.paths) == (theirs.owners, theirs.paths)
        torch.testing.assert_close(mine.logits, theirs.logits, atol=1e-4, rtol=1e-4)


def copy_of(row: DecodedSequence, pool: KVPool) -> DecodedSequence:
    """The same request with the same committed tokens, new to a pool."""
    copy = sequence(row.request, pool)
    for token in row.tokens[row.prompt_length :].tolist():
        copy.append(token)
    copy.step = row.step
    copy.steering = row.steering
    return copy


@dataclass
class Planted:
    """What a run with planted drafts came to.

    Attributes:
        rows: the requests.
        compared: proposals that were compared.
        checks: commits after which the target's KV was compared with a fresh prefill.
    """

    rows: list[DecodedSequence]
    compared: int
    checks: int

    @property
    def lengths(self) -> Counter[int]:
        """Accepted length -> steps."""
        return Counter(a for row in self.rows for a in row.trace.steps.accepted)


def plain_outputs(requests: Sequence[Request], model: Any = None) -> dict[str, list[int]]:
    """Item -> what plain decoding gives at temperature 0."""
    rows, _, _ = decode_packed(requests, lambda *_: NoDrafter(), GREEDY, 0, model)
    return {row.request.key.item: row.trace.output_ids for row in rows}


def planted_run(
    requests: Sequence[Request],
    build: Build,
    steering_of: Callable[[Continuation], Steering],
    k: int,
    model: Any,
    compare: bool = True,
    reference: Reference | None = None,
    schedule: Schedule = IN_ORDER,
) -> Planted:
    """Decode at temperature 0 with planted drafts: KV checked, proposals compared, as plain.

    Args:
        steering_of: continuation -> what steers.
        compare: whether every proposal is compared with a rebuilt drafter's.
        reference: see ``Compared``.
    """
    outputs = plain_outputs(requests, model)

    def steered(pool, _):
        inner = build(pool)
        if compare:
            inner = Compared(inner, build, model, reference)
        return Steered(inner, steering_of(from_outputs(outputs)))

    rows, target, used = decode_packed(
        requests, steered, GREEDY, k, model, check=True, schedule=schedule
    )
    assert {row.request.key.item: row.trace.output_ids for row in rows} == outputs
    return Planted(rows, used.inner.compared if compare else 0, target.checks)


def planting_in(shape: TreeShape, seed: int = 0) -> Callable[[Continuation], Steering]:
    """Steering that plants along a path of a static shape, its depth uniform in 0 .. budget."""
    chance = random.Random(seed)
    by_depth: dict[int, list[tuple[int, ...]]] = {0: [()]}
    for path in shape.paths():
        by_depth.setdefault(len(path), []).append(path)

    def of(continuation: Continuation) -> Steering:
        def steering(row: DecodedSequence, budget: int) -> Plant:
            room = max(budget, 0)
            ranks = chance.choice(by_depth[chance.randint(0, min(room, shape.depth))])
            return Plant(continuation(row, room), len(ranks), ranks)

        return steering

    return of


def nearly_best(depth: int) -> TreeShape:
    """Paths of best candidates with at most one second best: a dynamic tree keeps most of them."""
    paths = [(0,) * (length + 1) for length in range(depth)]
    paths += [
        (*(0,) * place, 1, *(0,) * (length - place))
        for length in range(depth)
        for place in range(length + 1)
    ]
    return TreeShape.from_paths(paths)
