"""A model that is fed a recorded output, chunk by chunk, and says what it thinks of each token."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

import torch

from specbench.core.request import Request
from specbench.decoding.rows import TargetRows, refuse_broken
from specbench.decoding.tree import chain
from specbench.engines.recorded import recorded_sequence
from specbench.models.kv_pool import KVPool
from specbench.models.opened import open_target
from specbench.models.target import PackedTarget

CHUNK = 32
"""Output tokens per forward; rows of vocabulary size live for one chunk."""


class Feed:
    """One opened model with its KV pool.

    Args:
        target: a ``[target]`` table as for the native engine.

    Raises:
        UsageError, PrerequisiteError: no such model, or one that cannot run packed.
    """

    def __init__(self, target: Mapping[str, Any]) -> None:
        self.opened = open_target(target, CHUNK)
        self._device = self.opened.loaded.device
        self._forward = PackedTarget(self.opened.model, self._device, self.opened.kernels)
        self._pool: KVPool | None = None

    def follow(self, request: Request, tokens: Sequence[int]) -> Generator[TargetRows, None, None]:
        """The rows that output tokens follow: those of the first, then of ``CHUNK`` at a time.

        The last token of a chunk is read when the next rows are asked for, so that it may be put
        in its place by then.

        Args:
            request: prompt, sampling and minimum length.
            tokens: the output, [n], n > 0.

        Raises:
            SpecbenchError: broken logits.
        """
        pool = self._pool_for(len(request.token_ids) + len(tokens))
        sequence = recorded_sequence(request, len(tokens), pool.admit(pool.capacity))
        try:
            rows, _ = self._forward.prefill([sequence], ())
            yield _whole(rows)
            sequence.append(tokens[0])
            for start in range(1, len(tokens), CHUNK):
                chunk = tokens[start : start + CHUNK]
                # Row 0 is the token before the chunk, so the last one is judged without being fed.
                fed = torch.tensor([chunk[:-1]], dtype=torch.int64, device=self._device)
                tree = chain(fed, (len(chunk) - 1,))
                rows, _ = self._forward.verify([sequence], tree, ())
                self._forward.commit([sequence], tree, [range(len(chunk) - 1)])
                yield _whole(rows)
                for token in tokens[start : start + CHUNK]:
                    sequence.append(token)
        finally:
            pool.release(sequence.slab)

    def close(self) -> None:
        """Drop the KV; the model goes with this object."""
        self.opened.model.forget()
        self._pool = None

    def _pool_for(self, rows: int) -> KVPool:
        if self._pool is None or self._pool.capacity < rows:
            # The old pool goes first: both together need not fit.
            self.close()
            self._pool = self.opened.new_pool(1, rows)
        return self._pool


def _whole(rows: TargetRows) -> TargetRows:
    refuse_broken(rows)
    return rows
