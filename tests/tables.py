"""Models whose logits are any function of the tokens before, on the real pool, target and loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from specbench.core.request import Request
from specbench.core.trace import ShortDraft
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.protocols import Draft, Drafter, Rule, Target
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.timing import TickRecorder
from specbench.drafters.chain import one_hot_draft
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.none import NoDrafter
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch
from specbench.models.target import PackedTarget
from tests.toys import ONE_NUMBER, sequence

Table = Callable[[tuple[int, ...]], Sequence[float]]
"""Tokens before a position -> logits there."""


class TableModel:
    """A packed forward that looks its logits up; ids live in the pool where keys would."""

    def __init__(self, owner: str, pool: KVPool, table: Table) -> None:
        self.owner = owner
        self.pool = pool
        self.calls = 0
        self._table = table
        pool.add_owner(owner, ONE_NUMBER)

    def forward(self, batch: PackedBatch, taps: Sequence = ()) -> tuple[Tensor, dict]:
        """Logits [M, V]."""
        self.calls += 1
        keys, _ = self.pool.layer(self.owner, 0)
        keys[batch.slabs, 0, batch.places, 0] = batch.ids.float()
        lines = []
        for segment in batch.segments:
            stored = keys[segment.slab, 0, :, 0].long()
            prefix = stored[: segment.before].tolist()
            own = stored[segment.before : segment.start + segment.count]
            for row in range(segment.count):
                seen = own[: row + 1] if segment.visible is None else own[segment.visible[row]]
                lines.append(list(self._table((*prefix, *seen.tolist()))))
        return torch.tensor(lines, dtype=torch.float32)[batch.logit_rows], {}


class PlannedDrafter(NoDrafter):
    """Proposes what a function of the tokens so far says, as one-hot drafts."""

    def __init__(self, plan: Callable[[list[int]], Sequence[int]]) -> None:
        self._plan = plan

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """At most ``budget[b]`` planned tokens."""
        drafts = [
            list(self._plan(row.tokens.tolist()))[:room]
            for row, room in zip(rows, budget, strict=True)
        ]
        return one_hot_draft(drafts, [ShortDraft.NONE] * len(rows), torch.device("cpu"))


def run(loop: DecodeLoop, rows: Sequence[DecodedSequence]) -> None:
    """Decode a batch to its end."""
    loop.prefill(rows)
    while going := [row for row in rows if row.finish is None]:
        loop.step(going)


def decode(
    asked: Sequence[Request],
    table: Table,
    drafter_of: Callable[[KVPool], Drafter],
    rule: Rule,
    k: int,
    target_of: Callable[[PackedTarget], Target] = lambda target: target,
) -> list[DecodedSequence]:
    """Decode requests in one batch."""
    pool = KVPool(len(asked), 64, torch.float32, torch.device("cpu"))
    target = PackedTarget(TableModel("target", pool, table), torch.device("cpu"))
    loop = DecodeLoop(target_of(target), drafter_of(pool), rule, k, TickRecorder(lambda: 0))
    rows = [sequence(one, pool) for one in asked]
    run(loop, rows)
    return rows


def random_table(salt: int, vocabulary: int, scale: float = 1.5) -> Table:
    """Logits that look random but depend on the tokens before alone."""

    def logits(tokens: tuple[int, ...]) -> list[float]:
        line = np.random.default_rng([salt, *tokens]).normal(size=vocabulary) * scale
        return line.astype(np.float32).tolist()

    return logits


def table_draft(table: Table, vocabulary: int, sampled: bool = True) -> Callable[[KVPool], Drafter]:
    """A draft model that looks its logits up in ``table``."""
    return lambda pool: DraftModelDrafter(TableModel("draft", pool, table), vocabulary, 64, sampled)
