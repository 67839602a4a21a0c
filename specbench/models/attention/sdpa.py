"""Reference attention on torch's scaled_dot_product_attention; CPU and GPU.

Heads that share a key-value head are folded into the query rows, so that keys are read once and
never repeated in memory. Shapes: Hq query heads, Hkv key-value heads, G = Hq / Hkv, D head size,
T packed tokens, n tokens of a segment, L valid KV rows of its request.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch, Segment


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
        self._masks: dict[tuple[int, int, int | None], Tensor | None] = {}

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
        keys, values = self._pool.layer(self._owner, layer)
        batch = self._batch
        keys[batch.slabs, :, batch.places] = key[0].transpose(0, 1)
        values[batch.slabs, :, batch.places] = value[0].transpose(0, 1)
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
        whole = segment.start == 0 and segment.visible is None and window is None
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
        folded = query.reshape(keys.shape[0], groups * count, size)
        attended = functional.scaled_dot_product_attention(
            folded[None],
            keys[None],
            values[None],
            attn_mask=self._mask(number, groups, window, query.dtype),
            scale=scaling,
        )[0]
        return attended.reshape(heads, count, -1).transpose(0, 1)

    def _mask(
        self, number: int, groups: int, window: int | None, dtype: torch.dtype
    ) -> Tensor | None:
        """Additive mask [G * n, L + n], None where everything is visible; built once per step."""
        name = (number, groups, window)
        if name not in self._masks:
            segment = self._batch.segments[number]
            visible = _visible(segment, window, self._batch.ids.device)
            self._masks[name] = (
                None
                if visible is None
                else torch.zeros(visible.shape, dtype=dtype, device=visible.device)
                .masked_fill_(~visible, -torch.inf)
                .repeat(groups, 1)
            )
        return self._masks[name]


def _visible(segment: Segment, window: int | None, device: torch.device) -> Tensor | None:
    """bool [n, L + n] of one segment; None where every entry is True."""
    count, start = segment.count, segment.start
    narrow = window is not None and start + count > window
    if count == 1 and segment.visible is None and not narrow:
        return None
    tail = segment.visible
    if tail is None:
        tail = torch.ones(count, count, dtype=torch.bool, device=device).tril()
    before = segment.before
    visible = torch.cat(
        [torch.ones(count, before, dtype=torch.bool, device=device), tail.to(device)], 1
    )
    if narrow:
        assert window is not None
        offsets = torch.arange(segment.tail) if segment.depths is None else segment.depths.cpu()
        position = (before + offsets).to(device)
        key_position = torch.cat([torch.arange(before, device=device), position])
        # transformers' sliding window: a token sees itself and the window - 1 positions before.
        visible &= key_position[None, :] > position[-count:, None] - window
    return visible
