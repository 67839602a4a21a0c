"""Which captured shape a forward takes: requests and tokens per request, rounded up.

A graph replays one shape. A forward of fewer requests or tokens is padded to a captured one.
Shapes: B requests of the batch, T packed tokens, M rows of logits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specbench.models.packed_batch import PackedBatch

PROMPT = "a prompt"
MIXED = "rows of logits that are neither all nor one of each request"
LATE = "no capture of the warm-up holds it"
FULL = "padding would not fit behind a request's last row"


@dataclass(frozen=True, slots=True)
class Bucket:
    """The shape of a captured forward.

    Attributes:
        requests: seats for requests.
        width: tokens of each.
        tail: rows whose visibility is told one by one, see ``Segment``; ``width`` for chains.
        tree: whether any token of a segment does not see all before it.
        rows: rows of logits per request: ``width``, 1 or 0.
    """

    requests: int
    width: int
    tail: int
    tree: bool
    rows: int

    @property
    def tokens(self) -> int:
        """Packed tokens, padding included."""
        return self.requests * self.width

    @property
    def every(self) -> bool:
        """Whether every token has a row of logits."""
        return self.rows == self.width

    def holds(self, other: Bucket) -> bool:
        """Whether a forward of the other shape can be padded to this one."""
        same = (self.every and other.every) or self.rows == other.rows
        sizes = (
            (self.requests, other.requests),
            (self.width, other.width),
            (self.tail, other.tail),
        )
        return self.tree is other.tree and same and all(own >= asked for own, asked in sizes)


def why_eager(batch: PackedBatch) -> str | None:
    """Why a forward is not of a kind that is captured; None where it is."""
    if any(segment.start == 0 for segment in batch.segments):
        return PROMPT
    return None if _rows(batch) is not None else MIXED


def bucket_of(batch: PackedBatch, requests: int) -> Bucket:
    """The smallest shape that a forward fits in.

    Args:
        batch: of a kind that is captured, see ``why_eager``.
        requests: seats that its attention needs, ``Attention.seats``.
    """
    width = max(segment.count for segment in batch.segments)
    tree = any(segment.visible is not None for segment in batch.segments)
    # Padding rows stand behind a segment's own.
    tail = max(segment.tail + width - segment.count for segment in batch.segments)
    rows = _rows(batch)
    assert rows is not None, "not of a kind that is captured"
    return Bucket(
        requests, width, rounded(tail) if tree else width, tree, width if rows == ALL else rows
    )


def smallest(known: Iterable[Bucket], wanted: Bucket, room: int) -> Bucket | str:
    """Of some shapes the one that a forward is padded to with the fewest tokens.

    Args:
        room: rows that the request with the fewest has from its first new one on.

    Returns:
        The shape, or why there is none: ``LATE`` or ``FULL``.
    """
    holding = [bucket for bucket in known if bucket.holds(wanted)]
    fitting = [bucket for bucket in holding if bucket.width <= room]
    if not fitting:
        return FULL if holding else LATE
    return min(fitting, key=lambda bucket: (bucket.tokens, bucket.tail))


def seats(requests: int, slabs: int) -> int:
    """Seats of a batch: the next power of two, or all that a pool of so many slabs can have."""
    return min(rounded(requests), slabs)


def verified(concurrency: int, slabs: int, k: int, nodes: int | None) -> list[Bucket]:
    """Shapes that hold every verification of an arm.

    A warm-up may not come across the widest: a lookup that finds nothing drafts nothing.

    Args:
        concurrency: requests at a time; fewer are left where a batch runs out.
        slabs: of the pool.
        k: tokens of the longest chain.
        nodes: of the largest tree; None where drafts are chains.
    """
    shapes = {(1, False), (1 + k, False)} | (set() if nodes is None else {(1 + nodes, True)})
    counts = {seats(requests, slabs) for requests in range(1, concurrency + 1)}
    return [
        Bucket(count, width, rounded(width) if tree else width, tree, width)
        for count in sorted(counts)
        for width, tree in sorted(shapes)
    ]


def rounded(count: int) -> int:
    """The next power of two."""
    return 1 << max(count - 1, 0).bit_length()


ALL = -1


def _rows(batch: PackedBatch) -> int | None:
    """Rows of logits per request: ``ALL``, 1 or 0; None for anything else."""
    wanted = len(batch.logit_rows)
    if wanted == batch.tokens:
        return ALL
    return {len(batch.segments): 1, 0: 0}.get(wanted)
