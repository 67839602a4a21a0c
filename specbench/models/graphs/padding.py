"""A packed batch with every request padded to one number of tokens, and seats without a request.

Padding tokens stand behind a request's own: nobody sees them, and their KV rows lie where the next
step writes. Empty seats live in the pool's scratch slab. Shapes: R seats, W tokens each, T tokens
of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.transfer import to_device
from specbench.models.graphs.buckets import Bucket
from specbench.models.packed_batch import PackedBatch, Segment, pack


@dataclass(frozen=True, slots=True)
class Padded:
    """What a graph runs.

    Attributes:
        batch: R * W tokens; ids where those of the batch were, everything else on the host.
        where: int64 [T] on the host, padded place of every packed token.
        seats: int64 [B] on the host, of every request.
    """

    batch: PackedBatch
    where: Tensor
    seats: Tensor


def idle(bucket: Bucket, scratch: int) -> PackedBatch:
    """A batch of a shape in which nobody sits; a capture is tried on it and writes for nobody.

    Args:
        bucket: the shape.
        scratch: slab of empty seats.
    """
    width = bucket.width
    visible = torch.ones(width, width).tril().bool() if bucket.tree else None
    segments = [Segment(scratch, 0, width, visible)] * bucket.requests
    return pack(segments, torch.zeros(bucket.tokens, dtype=torch.int64), _wanted(bucket))


def padded(batch: PackedBatch, bucket: Bucket, seats: Sequence[int], scratch: int) -> Padded:
    """Put a batch into a bucket.

    Args:
        batch: as ``pack`` makes it.
        bucket: holds its shape.
        seats: of its requests, all different.
        scratch: slab of empty seats.
    """
    empty = Segment(scratch, 0, bucket.width)
    segments = [empty] * bucket.requests
    for seat, segment in zip(seats, batch.segments, strict=True):
        segments[seat] = _widened(segment, bucket.width)
    counts = [segment.count for segment in batch.segments]
    owner = torch.repeat_interleave(torch.tensor(counts))
    first = torch.tensor(counts).cumsum(0) - torch.tensor(counts)
    offsets = torch.arange(batch.tokens) - first[owner]
    where = torch.tensor(seats)[owner] * bucket.width + offsets
    ids = batch.ids.new_zeros(bucket.tokens)
    ids.index_copy_(0, to_device(where, ids.device), batch.ids)
    return Padded(pack(segments, ids, _wanted(bucket)), where, torch.tensor(seats))


def _wanted(bucket: Bucket) -> str:
    """Rows of logits as ``pack`` names them."""
    return "all" if bucket.every else "last" if bucket.rows else "none"


def _widened(segment: Segment, width: int) -> Segment:
    """The segment with padding tokens at its end, each of which sees what is before and itself."""
    extra = width - segment.count
    if segment.visible is None or not extra:
        return Segment(segment.slab, segment.start, width, segment.visible, segment.depths)
    rows, tail = segment.count, segment.tail
    visible = torch.zeros(width, tail + extra, dtype=torch.bool)
    visible[:rows, :tail] = segment.visible.cpu()
    visible[rows:, tail:] = torch.eye(extra, dtype=torch.bool)
    depths = torch.arange(tail) if segment.depths is None else segment.depths.cpu()
    return Segment(
        segment.slab, segment.start, width, visible, torch.cat([depths, depths.new_zeros(extra)])
    )
