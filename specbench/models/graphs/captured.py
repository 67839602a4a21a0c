"""Forwards of models and heads, captured by shape and replayed.

Captures are made while arms are warmed up. In a measured step a forward takes the smallest shape
that was captured and holds it; where there is none it runs eagerly, and the tick says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specbench.decoding.timing import Forwards
from specbench.decoding.transfer import to_device
from specbench.errors import PrerequisiteError
from specbench.models.attention.backend import Attention, Plan
from specbench.models.graphs.buckets import Bucket, bucket_of, smallest, why_eager
from specbench.models.graphs.padding import padded
from specbench.models.graphs.record import CudaRecorder, Outputs, Record, Replay
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch

Run = Callable[[Tensor, Tensor, Tensor, Plan, Tensor | None], Outputs]
"""``(ids, positions, logit_rows, plan, hidden)``: logits [M, V] first, then one row per token."""

LATE = "no capture of the warm-up holds it"


@dataclass(frozen=True, slots=True)
class Kind:
    """What beside the shape tells captures apart.

    Attributes:
        owner: of the KV.
        how: what the forward computes beside logits.
    """

    owner: str
    how: Hashable


@dataclass(slots=True)
class Graphs:
    """All captured forwards of an engine.

    Attributes:
        record: records a function.
        forwards: counts what was replayed and what was not.
        capturing: whether new shapes are captured now.
        reasons: why forwards ran eagerly, with how often.
    """

    record: Record
    forwards: Forwards = field(default_factory=Forwards)
    capturing: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    _captured: dict[Kind, dict[Bucket, CapturedForward | None]] = field(default_factory=dict)

    def forget(self, owner: str) -> None:
        """Drop what was captured over a pool that is no longer used."""
        for kind in [kind for kind in self._captured if kind.owner == owner]:
            del self._captured[kind]

    def forward(
        self,
        pool: KVPool,
        attention: Attention,
        kind: Kind,
        batch: PackedBatch,
        run: Run,
        hidden: Tensor | None = None,
    ) -> Outputs | None:
        """Replay a forward; None where it has to run eagerly.

        Args:
            pool, attention: as for an eager forward.
            kind: what is computed.
            batch: as ``pack`` makes it.
            run: the forward, on tensors.
            hidden: [T, H] a further input per token.
        """
        found = self._find(pool, attention, kind, batch, run, hidden)
        if isinstance(found, str):
            self.reasons[found] += 1
            self.forwards.eager += 1
            return None
        self.forwards.replayed += 1
        self.forwards.padding += found.bucket.tokens - batch.tokens
        return found(batch, hidden)

    def _find(
        self,
        pool: KVPool,
        attention: Attention,
        kind: Kind,
        batch: PackedBatch,
        run: Run,
        hidden: Tensor | None,
    ) -> CapturedForward | str:
        """The capture that a batch takes, or why there is none."""
        why = why_eager(batch)
        if why is not None:
            return why
        slabs = [segment.slab for segment in batch.segments]
        wanted = bucket_of(batch, attention.seats(pool, slabs)[0])
        known = self._captured.setdefault(kind, {})
        if self.capturing and wanted not in known:
            made = CapturedForward(pool, attention, kind.owner, wanted, run, hidden)
            try:
                made.capture(self.record, batch, hidden)
            except RuntimeError as error:
                known[wanted] = None
                return f"not captured: {str(error).splitlines()[0]}"
            known[wanted] = made
        bucket = smallest([shape for shape, made in known.items() if made], wanted)
        return LATE if bucket is None else known[bucket] or LATE


def graphs_on(device: torch.device) -> Graphs:
    """No captures yet. PrerequisiteError where the device has no graphs."""
    if device.type != "cuda":
        raise PrerequisiteError(
            f"target.graphs captures CUDA graphs, and the target is on {device}",
            "leave target.graphs out, or set target.device = cuda",
        )
    return Graphs(CudaRecorder())


class CapturedForward:
    """One forward of one shape over static inputs.

    Args:
        pool, attention, owner: as for an eager forward.
        bucket: its shape.
        run: the forward, on tensors.
        hidden: a further input, for its width and type.
    """

    def __init__(
        self,
        pool: KVPool,
        attention: Attention,
        owner: str,
        bucket: Bucket,
        run: Run,
        hidden: Tensor | None,
    ) -> None:
        self.bucket = bucket
        self._pool = pool
        self._attention = attention
        self._run = run
        device, tokens = pool.device, bucket.tokens
        self._ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        # Positions, slabs and places of the tokens: one copy fills all of them.
        self._numbers = torch.zeros(3, tokens, dtype=torch.int64, device=device)
        rows = bucket.requests * bucket.rows
        self._logit_rows = torch.arange(rows, device=device)
        self._hidden = None if hidden is None else hidden.new_zeros(tokens, hidden.shape[1])
        positions, slabs, places = self._numbers.unbind()
        self._plan = attention.static(pool, owner, bucket, positions, slabs, places)
        self._replay: Replay | None = None

    def capture(self, record: Record, batch: PackedBatch, hidden: Tensor | None) -> None:
        """Record the forward, with a batch to try it on. RuntimeError where that fails."""
        self._fill(batch, hidden)

        def forward() -> Outputs:
            self._plan.begin()
            positions = self._numbers[0]
            return self._run(self._ids, positions, self._logit_rows, self._plan, self._hidden)

        forward()
        # The layers have now said what they need planned.
        self._fill(batch, hidden)
        self._replay = record(forward)

    def __call__(self, batch: PackedBatch, hidden: Tensor | None) -> Outputs:
        """Replay for a batch; outputs are copies, in its own order."""
        assert self._replay is not None, "captured first"
        where, seats = self._fill(batch, hidden)
        logits, *others = self._replay()
        rows = where if self.bucket.every else seats[: len(seats) * self.bucket.rows]
        return (logits[rows], *(other[where] for other in others))

    def _fill(self, batch: PackedBatch, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """Put a batch into the static inputs; returns its tokens' and its requests' places."""
        device = self._pool.device
        slabs = [segment.slab for segment in batch.segments]
        _, seats = self._attention.seats(self._pool, slabs)
        wide = padded(batch, self.bucket, seats, self._pool.scratch)
        numbers = torch.stack([wide.batch.positions, wide.batch.slabs, wide.batch.places])
        self._numbers.copy_(to_device(numbers, device))
        self._ids.copy_(to_device(wide.batch.ids, device))
        where, places = to_device(wide.where, device), to_device(wide.seats, device)
        if self.bucket.rows and not self.bucket.every:
            # Which row of a request is wanted may be known to the device alone.
            wanted = to_device(batch.logit_rows, device)
            self._logit_rows.index_copy_(0, places, where[wanted])
        if self._hidden is not None and hidden is not None:
            self._hidden.index_copy_(0, where, hidden)
        self._plan.fill(wide.batch.segments)
        return where, places
