"""Forwards of models and heads, captured by shape and replayed.

Captures are made while arms are warmed up. In a measured step a forward takes the smallest shape
that was captured and holds it; where there is none it runs eagerly, and the tick says so. A larger
KV pool ends all captures over the old one: they are made again before the first request enters it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specbench.decoding.timing import Forwards
from specbench.decoding.transfer import to_device
from specbench.errors import PrerequisiteError
from specbench.models.attention.backend import Attention, Fixed, Plan
from specbench.models.graphs.buckets import Bucket, bucket_of, seats, smallest, why_eager
from specbench.models.graphs.padding import idle, padded
from specbench.models.graphs.record import CudaRecorder, Outputs, Record, Replay
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch

Run = Callable[[Tensor, Tensor, Tensor, Plan, Tensor | None], Outputs]
"""``(ids, positions, logit_rows, plan, hidden)``: logits [M, V] first, then one row per token."""

FAILURES = (RuntimeError, ValueError)
"""What a capture raises: torch the one, FlashInfer, where it cannot plan a shape, the other."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What beside the shape tells captures apart.

    Attributes:
        owner: of the KV.
        how: what the forward computes beside logits.
    """

    owner: str
    how: Hashable


@dataclass(frozen=True, slots=True)
class Place:
    """Where an owner's forwards run.

    Attributes:
        pool: holds its KV.
        attention: the back end of its layers.
    """

    pool: KVPool
    attention: Attention


@dataclass(frozen=True, slots=True)
class Work:
    """What forwards of one kind do.

    Attributes:
        run: the forward, on tensors.
        hidden: [0, H] of the type of a further input per token; None where there is none.
    """

    run: Run
    hidden: Tensor | None = None


@dataclass(slots=True)
class Graphs:
    """All captured forwards of an engine.

    Attributes:
        record: records a function.
        forwards: counts what was replayed and what was not.
        capturing: whether new shapes are captured now.
        reasons: why forwards ran eagerly, with how often.
        failed: why captures failed, with how often.
    """

    record: Record
    forwards: Forwards = field(default_factory=Forwards)
    capturing: bool = False
    reasons: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    _places: dict[str, Place] = field(default_factory=dict)
    _works: dict[Kind, Work] = field(default_factory=dict)
    _captured: dict[Kind, dict[Bucket, CapturedForward | None]] = field(default_factory=dict)
    _ended: dict[Kind, set[Bucket]] = field(default_factory=dict)

    @property
    def shapes(self) -> int:
        """Forwards that can be replayed."""
        return sum(made is not None for known in self._captured.values() for made in known.values())

    def facts(self) -> dict[str, object]:
        """What was captured and what could not be, for records."""
        return {"forwards": self.shapes, "failed": dict(self.failed)}

    def settle(self, owner: str, place: Place) -> None:
        """An owner's forwards run in another place from now on; what was captured is dropped."""
        self.forget(owner)
        self._places[owner] = place

    def forget(self, owner: str) -> None:
        """Drop what was captured over a pool that is no longer used, and the pool."""
        self._places.pop(owner, None)
        for kind in [kind for kind in self._captured if kind.owner == owner]:
            made = self._captured.pop(kind)
            self._ended.setdefault(kind, set()).update(b for b, one in made.items() if one)

    def renew(self) -> None:
        """Capture what ``forget`` dropped over the pools that are used now."""
        for kind in [kind for kind in self._ended if kind.owner in self._places]:
            slabs = self._places[kind.owner].pool.slabs
            for old in self._ended.pop(kind):
                self.capture(kind, replace(old, requests=seats(old.requests, slabs)))

    def capture(self, kind: Kind, bucket: Bucket, work: Work | None = None) -> None:
        """Capture a shape where that was not tried yet.

        Args:
            kind: what is computed; its owner has settled.
            bucket: the shape.
            work: what forwards of the kind do, where none was seen before.
        """
        known = self._captured.setdefault(kind, {})
        if bucket in known:
            return
        if work is not None:
            self._works[kind] = work
        try:
            made = CapturedForward(self._places[kind.owner], kind.owner, bucket, self._works[kind])
            made.capture(self.record)
        except FAILURES as error:
            known[bucket] = None
            self.failed[first_line(error)] += 1
        else:
            known[bucket] = made

    def forward(
        self, kind: Kind, batch: PackedBatch, run: Run, hidden: Tensor | None = None
    ) -> Outputs | None:
        """Replay a forward; None where it has to run eagerly.

        Args:
            kind: what is computed.
            batch: as ``pack`` makes it.
            run: the forward, on tensors.
            hidden: [T, H] a further input per token.
        """
        found = self._find(kind, batch, run, hidden)
        if isinstance(found, str):
            self.reasons[found] += 1
            self.forwards.eager += 1
            return None
        self.forwards.replayed += 1
        self.forwards.padding += found.bucket.tokens - batch.tokens
        return found(batch, hidden)

    def _find(
        self, kind: Kind, batch: PackedBatch, run: Run, hidden: Tensor | None
    ) -> CapturedForward | str:
        """The capture that a batch takes, or why there is none."""
        why = why_eager(batch)
        if why is not None:
            return why
        place = self._places[kind.owner]
        count, _ = place.attention.seats(place.pool, [segment.slab for segment in batch.segments])
        wanted = bucket_of(batch, count)
        if self.capturing:
            self.capture(kind, wanted, Work(run, None if hidden is None else hidden[:0].clone()))
        made = {b: one for b, one in self._captured.get(kind, {}).items() if one is not None}
        room = place.pool.capacity - max(segment.start for segment in batch.segments)
        bucket = smallest(made, wanted, room)
        return bucket if isinstance(bucket, str) else made[bucket]


def first_line(error: Exception) -> str:
    """Why a capture failed, in short."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def graphs_on(device: torch.device) -> Graphs:
    """No captures yet. PrerequisiteError where the device has no graphs."""
    if device.type != "cuda":
        raise PrerequisiteError(
            f"target.graphs captures CUDA graphs, and the target is on {device}",
            "leave target.graphs out, or set target.device = cuda",
        )
    return Graphs(CudaRecorder(device))


class CapturedForward:
    """One forward of one shape over static inputs.

    Args:
        place, owner: where it runs, and whose KV it is.
        bucket: its shape.
        work: what it does.
    """

    def __init__(self, place: Place, owner: str, bucket: Bucket, work: Work) -> None:
        self.bucket = bucket
        self._place = place
        self._run = work.run
        device, tokens = place.pool.device, bucket.tokens
        self._ids = torch.zeros(tokens, dtype=torch.int64, device=device)
        # Positions, slabs and places of the tokens: one copy fills all of them.
        self._numbers = torch.zeros(3, tokens, dtype=torch.int64, device=device)
        rows = bucket.requests * bucket.rows
        self._logit_rows = torch.arange(rows, device=device)
        like = work.hidden
        self._hidden = None if like is None else like.new_zeros(tokens, like.shape[1])
        positions, slabs, places = self._numbers.unbind()
        fixed = Fixed(place.pool, owner, bucket, positions, slabs, places)
        self._plan = place.attention.static(fixed)
        self._replay: Replay | None = None

    def capture(self, record: Record) -> None:
        """Record the forward, tried on empty seats. ``FAILURES`` where that fails."""
        nobody = idle(self.bucket, self._place.pool.scratch)
        self._put(nobody)

        def forward() -> Outputs:
            self._plan.begin()
            positions = self._numbers[0]
            return self._run(self._ids, positions, self._logit_rows, self._plan, self._hidden)

        forward()
        # The layers have now said what they need planned.
        self._put(nobody)
        self._replay = record(forward)

    def __call__(self, batch: PackedBatch, hidden: Tensor | None) -> Outputs:
        """Replay for a batch; outputs are copies, in its own order."""
        assert self._replay is not None, "captured first"
        where, places = self._fill(batch, hidden)
        logits, *others = self._replay()
        rows = where if self.bucket.every else places[: len(places) * self.bucket.rows]
        return (logits[rows], *(other[where] for other in others))

    def _fill(self, batch: PackedBatch, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """Put a batch into the static inputs; returns its tokens' and its requests' places."""
        pool, device = self._place.pool, self._place.pool.device
        slabs = [segment.slab for segment in batch.segments]
        _, chosen = self._place.attention.seats(pool, slabs)
        wide = padded(batch, self.bucket, chosen, pool.scratch)
        where, places = to_device(wide.where, device), to_device(wide.seats, device)
        if self.bucket.rows and not self.bucket.every:
            # Which row of a request is wanted may be known to the device alone.
            wanted = to_device(batch.logit_rows, device)
            self._logit_rows.index_copy_(0, places, where[wanted])
        if self._hidden is not None and hidden is not None:
            self._hidden.index_copy_(0, where, hidden)
        self._put(wide.batch)
        return where, places

    def _put(self, batch: PackedBatch) -> None:
        """Fill in tokens and plan for a batch of the shape."""
        device = self._place.pool.device
        numbers = torch.stack([batch.positions, batch.slabs, batch.places])
        self._numbers.copy_(to_device(numbers, device))
        self._ids.copy_(to_device(batch.ids, device))
        self._plan.fill(batch.segments)
