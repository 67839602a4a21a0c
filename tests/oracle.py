"""A drafter that knows what comes next and is wrong from a depth drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.chain import one_hot_draft
from specbench.drafters.none import NoDrafter
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedTarget

Continuation = Callable[[DecodedSequence, int], Sequence[int]]
"""(request, n) -> its next n tokens, fewer where the output ends."""


class OracleMixDrafter(NoDrafter):
    """Plants ``depth`` right tokens and a wrong one after them, ``depth`` uniform in 0 .. K."""

    def __init__(self, continuation: Continuation, vocabulary: int, seed: int = 0) -> None:
        self._continuation = continuation
        self._vocabulary = vocabulary
        self._random = random.Random(seed)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Chains of full length, right up to their depth."""
        return one_hot_draft(
            [self._planted(row, max(room, 0)) for row, room in zip(rows, budget, strict=True)],
            [ShortDraft.NONE] * len(rows),
            torch.device("cpu"),
        )

    def _planted(self, row: DecodedSequence, room: int) -> list[int]:
        depth = self._random.randint(0, room)
        line = list(self._continuation(row, room))
        return [
            token if place < depth else (token + 1 + place) % self._vocabulary
            for place, token in enumerate(line)
        ]


def from_outputs(outputs: dict[str, list[int]]) -> Continuation:
    """The continuation of each item is known."""

    def continuation(row: DecodedSequence, count: int) -> list[int]:
        done = row.length - row.prompt_length
        return outputs[row.request.key.item][done : done + count]

    return continuation


class CheckedTarget(PackedTarget):
    """After each commit, compares the KV of every request with a fresh prefill of its tokens."""

    def __init__(self, model: PackedModel, fresh: PackedModel, tolerance: float) -> None:
        super().__init__(model, torch.device("cpu"))
        self._fresh = fresh
        self._tolerance = tolerance
        self.checks = 0

    def commit(self, rows, tree, paths) -> None:
        """Commit, then check rows 0 .. length - 1 of all layers."""
        super().commit(rows, tree, paths)
        layers = len(self._model.geometry())
        for b, row in enumerate(rows):
            ids = [*row.tokens.tolist(), *(int(tree.ids[b, node]) for node in paths[b])]
            fresh = KVPool(1, len(ids), torch.float32, torch.device("cpu"))
            fresh.add_owner(self._fresh.owner, self._fresh.geometry())
            self._fresh.use(fresh)
            self._fresh.forward(pack([Segment(0, 0, len(ids))], torch.tensor(ids), "none"))
            pool, owner = self._model.pool, self._model.owner
            assert pool.view(owner, row.slab).length == len(ids)
            for layer in range(layers):
                for got, expected in zip(
                    pool.layer(owner, layer), fresh.layer(self._fresh.owner, layer), strict=True
                ):
                    torch.testing.assert_close(
                        got[row.slab, :, : len(ids)],
                        expected[0],
                        atol=self._tolerance,
                        rtol=self._tolerance,
                    )
            self.checks += 1
