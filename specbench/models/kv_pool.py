"""Storage for keys and values: slabs of equal capacity, one per request, shared by owners.

An owner (the target, a draft model) has storage of its own, or aliases layers of another owner
(layer skip). All owners place a request at the same slab and count its length separately, since a
draft's KV may lag the target's. Layout per layer: [slabs, kv heads, capacity, head size], so that
a request's keys are a view without copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.errors import SpecbenchError


@dataclass(frozen=True, slots=True)
class LayerGeometry:
    """Shape of one attention layer's keys and values, per token."""

    kv_heads: int
    key_size: int
    value_size: int


@dataclass(frozen=True, slots=True)
class KVView:
    """Where a request's KV of one owner lies: its slab and the number of rows written."""

    slab: int
    length: int


class KVPool:
    """Slabs for at most ``slabs`` requests of at most ``capacity`` tokens each.

    Args:
        slabs: requests that can live at the same time.
        capacity: rows per request, scratch for drafts included.
        dtype, device: of the storage, unless an owner asks for another type.
    """

    def __init__(self, slabs: int, capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        self.slabs = slabs
        self.capacity = capacity
        self._dtype = dtype
        self.device = device
        self._free = list(range(slabs - 1, -1, -1))
        self._layers: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self._lengths: dict[str, list[int]] = {}

    def add_owner(
        self, owner: str, geometry: Sequence[LayerGeometry], dtype: torch.dtype | None = None
    ) -> None:
        """Give an owner storage of its own, in a type of its own where its model has one."""

        def storage(heads: int, size: int) -> Tensor:
            shape = self._shape(heads, size)
            return torch.zeros(shape, dtype=dtype or self._dtype, device=self.device)

        self._layers[owner] = [
            (storage(g.kv_heads, g.key_size), storage(g.kv_heads, g.value_size)) for g in geometry
        ]
        self._lengths[owner] = [0] * self.slabs

    def alias(self, owner: str, of: str, layers: int) -> None:
        """Let an owner read and write the first ``layers`` layers of another one."""
        self._layers[owner] = self._layers[of][:layers]
        self._lengths[owner] = self._lengths[of]

    def _shape(self, heads: int, size: int) -> tuple[int, int, int, int]:
        return (self.slabs, heads, self.capacity, size)

    @property
    def available(self) -> int:
        """Free slabs."""
        return len(self._free)

    def admit(self, tokens: int) -> int:
        """Take a slab for a request of up to ``tokens`` rows; its lengths start at 0."""
        if tokens > self.capacity:
            raise SpecbenchError(f"request of {tokens} KV rows in slabs of {self.capacity}")
        slab = self._free.pop()
        for lengths in self._lengths.values():
            lengths[slab] = 0
        return slab

    def release(self, slab: int) -> None:
        """Give a slab back; what it holds may be overwritten at once."""
        self._free.append(slab)

    def view(self, owner: str, slab: int) -> KVView:
        """Slab and length of a request's KV."""
        return KVView(slab, self._lengths[owner][slab])

    def layer(self, owner: str, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, each [slabs, kv heads, capacity, head size]."""
        return self._layers[owner][layer]

    def set_length(self, owner: str, slab: int, length: int) -> None:
        """Declare the first ``length`` rows valid; rows behind are scratch."""
        self._lengths[owner][slab] = length

    def keep(self, owner: str, slab: int, rows: Sequence[int]) -> None:
        """Move scratch rows (offsets from the valid length) to its end and make them valid.

        Rows already in place, as on every chain, are not copied.
        """
        start = self._lengths[owner][slab]
        if list(rows) != list(range(len(rows))):
            source = torch.tensor([start + r for r in rows], device=self.device)
            for keys, values in self._layers[owner]:
                keys[slab, :, start : start + len(rows)] = keys[slab, :, source]
                values[slab, :, start : start + len(rows)] = values[slab, :, source]
        self._lengths[owner][slab] = start + len(rows)

    @property
    def nbytes(self) -> int:
        """Bytes of all storage; aliased layers count once."""
        tensors = {id(t): t for layers in self._layers.values() for pair in layers for t in pair}
        return sum(tensor.nbytes for tensor in tensors.values())
