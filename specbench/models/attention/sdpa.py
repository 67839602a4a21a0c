"""Reference attention on torch's scaled_dot_product_attention; CPU and GPU.

Heads that share a key-value head are folded into the query rows, so that keys are read once and
never repeated in memory. Shapes: Hq query heads, Hkv key-value heads, G = Hq / Hkv, D head size,
T packed tokens, n tokens of a segment, L valid KV rows of its request.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specbench.models.attention.backend import Fixed
from specbench.models.attention.sight import Sight, is_narrow, sight
from specbench.models.attention.static import StaticSdpa
from specbench.models.graphs.buckets import seats
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch

_FLASH = "_scaled_dot_product_flash_attention_for_cpu"
"""What scaled_dot_product_attention calls on a CPU; it also returns the log of each row's sum."""


class Sdpa:
    """The back end that runs everywhere; see ``attention.backend.Attention``."""

    name = "sdpa"

    def require(self, owner: str, layers: Sequence[LayerGeometry], dtype: torch.dtype) -> None:
        """Nothing is refused."""

    def plan(self, pool: KVPool, owner: str, batch: PackedBatch) -> SdpaPlan:
        """Plan a forward."""
        return SdpaPlan(pool, owner, batch)

    def seats(self, pool: KVPool, slabs: Sequence[int]) -> tuple[int, list[int]]:
        """A seat per slab, up to the last one that is used: keys are read where they lie."""
        return seats(max(slabs) + 1, pool.slabs), list(slabs)

    def static(self, fixed: Fixed) -> StaticSdpa:
        """Plan forwards of one shape."""
        return StaticSdpa(fixed)


SDPA = Sdpa()


class SdpaPlan:
    """One planned forward: where KV is written and read, and masks shared by all layers.

    Args:
        pool, owner: whose storage is used.
        batch: the packed batch.
    """

    def __init__(self, pool: KVPool, owner: str, batch: PackedBatch) -> None:
        self._pool = pool
        self._owner = owner
        self._batch = batch
        self._sights: dict[tuple[int, int, int | None], Sight] = {}

    def run(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        window: int | None,
    ) -> Tensor:
        """Attend; query [1, Hq, T, D], key and value [1, Hkv, T, D]; returns [1, T, Hq, D]."""
        batch, new = self._batch, (key[0].transpose(0, 1), value[0].transpose(0, 1))
        keys, values = self._pool.write(self._owner, layer, batch.slabs, batch.places, *new)
        output = query.new_empty(query.shape[2], query.shape[1], value.shape[3])
        first = 0
        for number, segment in enumerate(batch.segments):
            last = first + segment.count
            end = segment.start + segment.count
            attended = self._segment(
                number,
                query[0, :, first:last],
                keys[segment.slab, :, :end],
                values[segment.slab, :, :end],
                scaling,
                window,
            )
            output[first:last] = attended
            first = last
        return output[None]

    def _segment(
        self,
        number: int,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        scaling: float,
        window: int | None,
    ) -> Tensor:
        """Query [Hq, n, D] over keys and values [Hkv, L + n, D]; returns [n, Hq, D]."""
        heads, count, size = query.shape
        groups = heads // keys.shape[0]
        segment = self._batch.segments[number]
        whole = segment.start == 0 and segment.visible is None and not is_narrow(segment, window)
        if whole and count > 1:
            attended = functional.scaled_dot_product_attention(
                query[None],
                keys[None],
                values[None],
                is_causal=True,
                scale=scaling,
                enable_gqa=True,
            )[0]
            return attended.transpose(0, 1)
        name = (number, groups, window)
        if name not in self._sights:
            can_split = _can_split(query, values)
            self._sights[name] = sight(
                segment, groups, window, query.dtype, query.device, can_split
            )
        seen = self._sights[name]
        folded = query.reshape(keys.shape[0], groups * count, size)[None]
        keys, values = keys[None, :, seen.first :], values[None, :, seen.first :]
        if seen.open:
            attended = _attend_apart(folded, keys, values, seen, scaling)
        else:
            attended = functional.scaled_dot_product_attention(
                folded, keys, values, attn_mask=seen.mask, scale=scaling
            )
        return attended[0].reshape(heads, count, -1).transpose(0, 1)


def _can_split(query: Tensor, values: Tensor) -> bool:
    return (
        query.device.type == "cpu"
        and query.shape[-1] == values.shape[-1]
        and hasattr(torch.ops.aten, _FLASH)
    )


def _attend_apart(
    query: Tensor, keys: Tensor, values: Tensor, seen: Sight, scaling: float
) -> Tensor:
    """Attention to the open rows and to those behind a mask, merged by the logs of their sums.

    Query [1, Hkv, G * n, D], keys and values [1, Hkv, rows, D]; returns the query's shape.
    """
    flash = getattr(torch.ops.aten, _FLASH)
    at = seen.open
    before, sum_before = flash(query, keys[:, :, :at], values[:, :, :at], scale=scaling)
    tail, sum_tail = flash(
        query, keys[:, :, at:], values[:, :, at:], attn_mask=seen.mask, scale=scaling
    )
    share = torch.sigmoid(sum_tail - sum_before)[..., None]
    return torch.lerp(before, tail, share.to(before.dtype))
