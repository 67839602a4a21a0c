"""Drafters with KV of their own, compared after every step with ones that start afresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from specbench.decoding.protocols import Drafter
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from tests.toys import sequence

CPU = torch.device("cpu")
CAPACITY = 96
CLOSE = {"atol": 1e-4, "rtol": 1e-4}


class Rebuilt:
    """Compares each proposal with that of a drafter that has just seen the committed prefix.

    Args:
        inner: the drafter.
        fresh: pool -> a drafter like it.
    """

    def __init__(self, inner: Drafter, fresh: Callable[[KVPool], Drafter]) -> None:
        self.inner = inner
        self._fresh = fresh
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Any:
        """The inner drafter's draft, after the comparison."""
        draft = self.inner.propose(rows, budget)
        pool = KVPool(len(rows), CAPACITY, torch.float32, CPU)
        fresh = self._fresh(pool)
        copies = [_copy(row, pool) for row in rows]
        fresh.admit(copies, {})
        expected = fresh.propose(copies, budget)
        assert draft.tree.counts == expected.tree.counts
        assert torch.equal(draft.tree.ids, expected.tree.ids)
        assert torch.equal(draft.tree.parents, expected.tree.parents)
        assert draft.tree.chain == expected.tree.chain
        for name in ("parent", "node", "law"):
            assert torch.equal(getattr(draft.trials, name), getattr(expected.trials, name))
        assert (draft.proposed, draft.short) == (expected.proposed, expected.short)
        assert type(draft.laws) is type(expected.laws)
        if hasattr(draft.laws, "rows"):
            torch.testing.assert_close(draft.laws.rows, expected.laws.rows, **CLOSE)
        self.compared += 1
        return draft


class CheckedDraft:
    """After each refill, compares the KV of the drafts with fresh prefills of what is committed.

    Args:
        inner: the drafter.
        models: its packed models.
    """

    def __init__(self, inner: Drafter, models: Sequence[PackedModel]) -> None:
        self.inner = inner
        self._models = models
        self.checks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def observe(self, rows, draft, verified, acceptance, taps) -> None:
        """Observe, then check every request that goes on."""
        self.inner.observe(rows, draft, verified, acceptance, taps)
        for b, row in enumerate(rows):
            path = acceptance.path[b, : acceptance.n_accepted[b]]
            if row.remaining > len(path) + 1:
                ids = [*row.tokens.tolist(), *draft.tree.ids[b, path].tolist()]
                ids.append(int(acceptance.next_token[b]))
                for model in self._models:
                    self._check(model, row.slab, ids)

    def _check(self, model: PackedModel, slab: int, ids: list[int]) -> None:
        fresh = KVPool(1, len(ids), torch.float32, CPU)
        alone = PackedModel(model.model, "alone")
        fresh.add_owner("alone", alone.geometry())
        alone.use(fresh)
        alone.forward(pack([Segment(0, 0, len(ids))], torch.tensor(ids), "none"))
        assert model.pool.view(model.owner, slab).length == len(ids)
        for layer in range(len(alone.geometry())):
            pairs = zip(
                model.pool.layer(model.owner, layer), fresh.layer("alone", layer), strict=True
            )
            for got, expected in pairs:
                torch.testing.assert_close(got[slab, :, : len(ids)], expected[0], **CLOSE)
        self.checks += 1


def _copy(row: DecodedSequence, pool: KVPool) -> DecodedSequence:
    """The same request with the same committed tokens, new to a pool."""
    copy = sequence(row.request, pool)
    for token in row.tokens[row.prompt_length :].tolist():
        copy.append(token)
    copy.step, copy.steering = row.step, row.steering
    return copy


def close_to(model: Any, seed: int = 0) -> Any:
    """A model with a little noise: a draft of itself that is often right."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += 0.01 * torch.randn(parameter.shape, generator=generator)
    return model
