"""The target model in the decode loop: ragged prefill, chain or tree verify, KV bookkeeping.

Between steps the target's KV holds prompt and committed tokens except the last one, which the next
step feeds together with the draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.context import context_of, needs_context
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.protocols import Tap
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import RowContext
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import TokenTree
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch, Segment, pack


class PackedForward(Protocol):
    """What runs packed batches: a ``PackedModel``, or a toy in tests."""

    owner: str

    @property
    def pool(self) -> KVPool: ...

    def forward(
        self, batch: PackedBatch, taps: Sequence[Tap] = ()
    ) -> tuple[Tensor, dict[Tap, Tensor]]: ...


class PackedTarget:
    """Implements ``decoding.protocols.Target`` over a packed forward.

    Args:
        model: runs it.
        device: where it runs.
        kernels: what applies sampling settings to its rows.
    """

    def __init__(
        self, model: PackedForward, device: torch.device, kernels: Kernels = TORCH
    ) -> None:
        self._model = model
        self._device = device
        self._kernels = kernels

    def prefill(
        self, rows: Sequence[DecodedSequence], taps: Sequence[Tap]
    ) -> tuple[TargetRows, dict[Tap, Tensor]]:
        """Run whole prompts; one target row per request."""
        pool, owner = self._model.pool, self._model.owner
        segments = [Segment(row.slab, 0, row.prompt_length) for row in rows]
        ids = torch.from_numpy(np.concatenate([row.tokens for row in rows]))
        logits, states = self._model.forward(pack(segments, ids, "last"), taps)
        for row in rows:
            pool.set_length(owner, row.slab, row.prompt_length)
        index = torch.arange(len(rows))[:, None]
        sampling = [row.request.sampling for row in rows]
        contexts = [context_of(row) for row in rows] if needs_context(rows) else None
        return TargetRows(logits, index, sampling, contexts, self._kernels), states

    def verify(
        self, rows: Sequence[DecodedSequence], tree: TokenTree, taps: Sequence[Tap]
    ) -> tuple[TargetRows, dict[Tap, Tensor]]:
        """Run last committed token and drafted nodes of every request in one forward."""
        pool, owner = self._model.pool, self._model.owner
        visible = None if tree.chain else tree.ancestors()
        depths = None if tree.chain else tree.depths()
        segments = [
            Segment(
                row.slab,
                pool.view(owner, row.slab).length,
                1 + tree.counts[b],
                None if visible is None else _with_root(visible[b], tree.counts[b]),
                None if depths is None else _after_root(depths[b], tree.counts[b]),
            )
            for b, row in enumerate(rows)
        ]
        last = to_device(torch.tensor([row.tokens[-1] for row in rows]), self._device)
        table = torch.cat([last[:, None], tree.ids.to(self._device)], 1)
        counts = torch.tensor([s.count for s in segments])
        real = torch.arange(table.shape[1]) < counts[:, None]
        # A hole (-1) inside a draft still occupies a row; it runs as token 0 and is never judged.
        packed = to_device(real.flatten().nonzero().squeeze(1), self._device)
        ids = table.clamp(min=0).flatten()[packed]
        logits, states = self._model.forward(pack(segments, ids, "all"), taps)
        first = counts.cumsum(0) - counts
        index = first[:, None] + torch.where(real, torch.arange(table.shape[1]), 0)
        sampling: list[Sampling] = []
        for row, segment in zip(rows, segments, strict=True):
            sampling += [row.request.sampling] * segment.count
        contexts = _tree_contexts(rows, tree) if needs_context(rows) else None
        return TargetRows(logits, index, sampling, contexts, self._kernels), states

    def commit(
        self, rows: Sequence[DecodedSequence], tree: TokenTree, paths: Sequence[Sequence[int]]
    ) -> None:
        """Keep the KV of the last token and of the accepted nodes."""
        for row, path in zip(rows, paths, strict=True):
            self._model.pool.keep(self._model.owner, row.slab, [0, *(1 + node for node in path)])

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Give the slabs back."""
        for row in rows:
            self._model.pool.release(row.slab)


def _with_root(visible: Tensor, count: int) -> Tensor:
    """Node visibility with the root (the last committed token) as row and column 0."""
    mask = torch.ones(1 + count, 1 + count, dtype=torch.bool, device=visible.device)
    mask[0, 1:] = False
    mask[1:, 1:] = visible[:count, :count]
    return mask


def _after_root(depths: Tensor, count: int) -> Tensor:
    return torch.cat([depths.new_zeros(1), depths[:count]])


def _tree_contexts(rows: Sequence[DecodedSequence], tree: TokenTree) -> list[RowContext]:
    """Per packed row the tokens before it: committed output and the path to its node."""
    ids, parents = tree.ids.tolist(), tree.parents.tolist()
    contexts = []
    for b, row in enumerate(rows):
        # The root's path, which a parent of -1 finds at the end, then that of every node.
        paths: list[list[int]] = [[] for _ in range(tree.counts[b] + 1)]
        contexts.append(context_of(row))
        for node in range(tree.counts[b]):
            paths[node] = [*paths[parents[b][node]], ids[b][node]]
            contexts.append(context_of(row, paths[node]))
    return contexts
