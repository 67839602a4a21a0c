"""Attention over fixed shapes on scaled_dot_product_attention: a request's seat is its slab.

Keys are read where they lie, all of a slab and not only its valid rows: a mask that the device
makes from numbers says which count. Nothing is planned on the host, so a graph can hold all of it.
Shapes: R seats, W tokens of each, m rows of a tail, C capacity of a slab, Hq query heads, Hkv
key-value heads, G = Hq / Hkv, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specbench.decoding.transfer import to_device
from specbench.models.attention.backend import Fixed
from specbench.models.attention.sight import visible_tail
from specbench.models.packed_batch import Segment


class StaticSdpa:
    """See ``attention.backend.StaticPlan``.

    Args:
        fixed: what all forwards have in common.
    """

    def __init__(self, fixed: Fixed) -> None:
        self._fixed = fixed
        bucket, device = fixed.bucket, fixed.pool.device
        size = (bucket.requests, bucket.tail)
        # Rows before each tail, and the depths of the tail's rows.
        self._before = torch.zeros(bucket.requests, 1, dtype=torch.int64, device=device)
        self._depths = torch.zeros(size, dtype=torch.int64, device=device)
        shape = (bucket.requests, bucket.width, bucket.tail)
        self._visible = torch.zeros(shape, dtype=torch.bool, device=device)
        self._masks: dict[int | None, Tensor] = {}

    def begin(self) -> None:
        """A forward begins: its masks are made by its first layers."""
        self._masks.clear()

    def fill(self, segments: Sequence[Segment]) -> None:
        """Take in what the tokens of R segments of W tokens see."""
        visible = torch.zeros(self._visible.shape, dtype=torch.bool)
        depths = torch.zeros(self._depths.shape, dtype=torch.int64)
        for seat, segment in enumerate(segments):
            tail = segment.tail
            visible[seat, :, :tail] = visible_tail(segment)
            depths[seat, :tail] = (
                torch.arange(tail) if segment.depths is None else segment.depths.cpu()
            )
        before = torch.tensor([[segment.before] for segment in segments])
        device = self._fixed.pool.device
        for static, new in (
            (self._before, before),
            (self._depths, depths),
            (self._visible, visible),
        ):
            static.copy_(to_device(new, device))

    def run(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        window: int | None,
    ) -> Tensor:
        """Attend; query [1, Hq, R * W, D], key and value [1, Hkv, R * W, D]; see ``Plan``."""
        fixed, new = self._fixed, (key[0].transpose(0, 1), value[0].transpose(0, 1))
        keys, values = fixed.pool.write(fixed.owner, layer, fixed.slabs, fixed.places, *new)
        seats, width = self._fixed.bucket.requests, self._fixed.bucket.width
        heads, size = keys.shape[1], query.shape[3]
        groups = query.shape[1] // heads
        if window not in self._masks:
            self._masks[window] = self._mask(window, keys.shape[2])
        mask = self._masks[window][:, None, None].expand(-1, 1, groups, -1, -1)
        folded = query[0].view(heads, groups, seats, width, size).permute(2, 0, 1, 3, 4)
        attended = functional.scaled_dot_product_attention(
            folded.reshape(seats, heads, groups * width, size),
            keys[:seats],
            values[:seats],
            attn_mask=mask.reshape(seats, 1, groups * width, -1),
            scale=scaling,
        )
        parts = attended.view(seats, heads, groups, width, -1).permute(0, 3, 1, 2, 4)
        return parts.reshape(1, seats * width, heads * groups, -1)

    def _mask(self, window: int | None, capacity: int) -> Tensor:
        """bool [R, W, C]: rows that each token sees."""
        rows = torch.arange(capacity, device=self._before.device)[None]
        place = rows - self._before
        told = (place >= 0) & (place < self._fixed.bucket.tail)
        at = place.clamp(0, self._fixed.bucket.tail - 1)
        tail = self._visible.gather(2, at[:, None].expand(-1, self._fixed.bucket.width, -1))
        seen = (place < 0)[:, None] | (told[:, None] & tail)
        if window is None:
            return seen
        position = torch.where(told, self._before + self._depths.gather(1, at), rows)
        own = self._fixed.positions.view(self._fixed.bucket.requests, -1)
        return seen & (position[:, None] > own[..., None] - window)
