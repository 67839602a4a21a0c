"""One ragged forward, described: prefill, plain decode, chain and tree verify are all of this form.

T packed tokens of B segments (one per request); every token sees the KV rows of its request up to
the segment's tail and, of the tail, the rows its tree allows (for a chain: those up to itself).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specbench.decoding.transfer import to_device


@dataclass(frozen=True, slots=True)
class Segment:
    """The new tokens of one request.

    Attributes:
        slab: where its KV lies.
        start: KV rows before these tokens.
        count: number of new tokens; they are written to rows ``start`` onwards.
        visible: bool [count, m], what each token sees of the last m >= count rows, its tail: rows
            of a tree that were written before come first, the new tokens last. None = causal
            chain, m = count.
        depths: int [m], positions of the tail's rows less the number of rows before the tail;
            None = 0 .. m - 1.
    """

    slab: int
    start: int
    count: int
    visible: Tensor | None = None
    depths: Tensor | None = None

    @property
    def tail(self) -> int:
        """m, rows whose visibility is told one by one."""
        return self.count if self.visible is None else int(self.visible.shape[1])

    @property
    def before(self) -> int:
        """Rows before the tail: every token sees them, and row i is at position i."""
        return self.start + self.count - self.tail


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Packed inputs of a forward; what ``pack`` makes is on the host, but for the ids it was given.

    Attributes:
        segments: in packed order.
        ids: int64 [T].
        positions: int64 [T] for rotary embeddings.
        logit_rows: int64 [M], packed tokens whose logits are wanted.
        slabs, places: int64 [T], where each token's KV row goes.
    """

    segments: tuple[Segment, ...]
    ids: Tensor
    positions: Tensor
    logit_rows: Tensor
    slabs: Tensor
    places: Tensor

    @property
    def tokens(self) -> int:
        """T."""
        return int(self.ids.shape[0])

    def to(self, device: torch.device) -> PackedBatch:
        """The same batch on a device; itself where it is there already."""
        if self.places.device == device:
            return self
        parts = (self.ids, self.positions, self.logit_rows, self.slabs, self.places)
        moved = list(parts)
        # One copy for all that is still on the host: each would cost as much as all of them.
        there = [i for i, part in enumerate(parts) if part.device != device]
        sizes = [len(parts[i]) for i in there]
        joined = to_device(torch.cat([parts[i] for i in there]), device)
        for i, part in zip(there, joined.split(sizes), strict=True):
            moved[i] = part
        return PackedBatch(self.segments, *moved)


def pack(segments: Sequence[Segment], ids: Tensor, logits: str) -> PackedBatch:
    """Build a batch from segments and their packed ids int64 [T].

    Args:
        segments: one per request, in the order of ``ids``.
        ids: token ids of all segments, concatenated.
        logits: ``all`` rows, the ``last`` row of each segment, or ``none``.
    """
    counts = np.array([s.count for s in segments])
    if counts.min() < 1:
        raise ValueError("a request without tokens cannot be run")
    starts = np.array([s.start for s in segments])
    ends = np.cumsum(counts)
    offsets = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    places = torch.from_numpy(np.repeat(starts, counts) + offsets)
    positions = places
    if any(s.depths is not None for s in segments):
        positions = torch.cat(
            [
                torch.arange(s.start, s.start + s.count)
                if s.depths is None
                else s.before + s.depths.cpu()[-s.count :]
                for s in segments
            ]
        )
    wanted = {
        "all": np.arange(ends[-1]),
        "last": ends - 1,
        "none": np.empty(0, dtype=np.int64),
    }[logits]
    slabs = np.repeat(np.array([s.slab for s in segments]), counts)
    return PackedBatch(
        tuple(segments),
        ids,
        positions,
        torch.from_numpy(wanted),
        torch.from_numpy(slabs),
        places,
    )
