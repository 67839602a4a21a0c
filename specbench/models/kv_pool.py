"""Storage for keys and values: slabs of equal capacity, one per request, shared by owners.

An owner (the target, a draft model) has storage of its own, or aliases layers of another owner
(layer skip). All owners place a request at the same slab and count its length separately, since a
draft's KV may lag the target's. Layout per layer: [slabs, kv heads, capacity, head size], so that
a request's keys are a view without copying. Layers of one shape are stacked in one tensor, so that
moving the rows of an accepted path is one copy and not one per layer.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.transfer import to_device
from specbench.errors import SpecbenchError

Moved = Callable[[int, int, Sequence[int]], None]
"""``(slab, start, rows)``, see ``KVPool.move``."""


@dataclass(frozen=True, slots=True)
class LayerGeometry:
    """Shape of one attention layer's keys and values, per token."""

    kv_heads: int
    key_size: int
    value_size: int

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Heads and size of keys and of values."""
        return (self.kv_heads, self.key_size), (self.kv_heads, self.value_size)


@dataclass(frozen=True, slots=True)
class KVView:
    """Where a request's KV of one owner lies: its slab and the number of rows written."""

    slab: int
    length: int


class KVPool:
    """Slabs for at most ``slabs`` requests of at most ``capacity`` tokens each.

    Args:
        slabs: requests that can live at the same time.
        scratch: whether there is one slab more, ``scratch``, for tokens of no request.
        capacity: rows per request, scratch for drafts included.
        dtype, device: of the storage, unless an owner asks for another type.
    """

    def __init__(
        self,
        slabs: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
        scratch: bool = False,
    ) -> None:
        self.slabs = slabs
        self._stored = slabs + scratch
        self.capacity = capacity
        self._dtype = dtype
        self.device = device
        self._free = list(range(slabs))
        self._geometry: dict[str, Sequence[LayerGeometry]] = {}
        self._stacks: dict[str, dict[tuple[int, int], Tensor]] = {}
        self._layers: dict[str, list[tuple[Tensor, Tensor]]] = {}
        self._lengths: dict[str, list[int]] = {}
        self._watched: dict[str, Moved] = {}
        self.nbytes = 0
        """Bytes of all storage; aliased layers count once."""

    def add_owner(
        self, owner: str, geometry: Sequence[LayerGeometry], dtype: torch.dtype | None = None
    ) -> None:
        """Give an owner storage of its own, in a type of its own where its model has one."""
        stacks = {
            (heads, size): torch.zeros(
                (count, self._stored, heads, self.capacity, size),
                dtype=dtype or self._dtype,
                device=self.device,
            )
            for (heads, size), count in _counts(geometry).items()
        }
        parts = {shape: iter(stack.unbind()) for shape, stack in stacks.items()}
        self._layers[owner] = [
            (next(parts[keys]), next(parts[values]))
            for keys, values in (layer.shapes for layer in geometry)
        ]
        self._geometry[owner] = geometry
        self._stacks[owner] = stacks
        self._lengths[owner] = [0] * self.slabs
        self.nbytes += sum(stack.nbytes for stack in stacks.values())

    def alias(self, owner: str, of: str, layers: int) -> None:
        """Let an owner read and write the first ``layers`` layers of another one."""
        self._layers[owner] = self._layers[of][:layers]
        # Layers are stacked in their order, so those of an early exit are the first of each stack.
        self._geometry[owner] = self._geometry[of][:layers]
        self._stacks[owner] = {
            shape: self._stacks[of][shape][:count]
            for shape, count in _counts(self._geometry[owner]).items()
        }
        self._lengths[owner] = self._lengths[of]

    @property
    def scratch(self) -> int:
        """The slab of no request."""
        assert self._stored > self.slabs, "a pool made without a scratch slab"
        return self.slabs

    @property
    def available(self) -> int:
        """Free slabs."""
        return len(self._free)

    def admit(self, tokens: int) -> int:
        """Take the first free slab for a request of up to ``tokens`` rows; lengths start at 0."""
        if tokens > self.capacity:
            raise SpecbenchError(f"request of {tokens} KV rows in slabs of {self.capacity}")
        slab = heapq.heappop(self._free)
        if self._stored > self.slabs:
            # Captured forwards read whole slabs behind a mask, and a NaN that somebody left there
            # would be one behind the mask too.
            for stacks in self._stacks.values():
                for stack in stacks.values():
                    stack[:, slab].zero_()
        for lengths in self._lengths.values():
            lengths[slab] = 0
        return slab

    def release(self, slab: int) -> None:
        """Give a slab back; what it holds may be overwritten at once."""
        heapq.heappush(self._free, slab)

    def view(self, owner: str, slab: int) -> KVView:
        """Slab and length of a request's KV."""
        return KVView(slab, self._lengths[owner][slab])

    def layer(self, owner: str, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, each [slabs, kv heads, capacity, head size]."""
        return self._layers[owner][layer]

    def write(
        self, owner: str, layer: int, slabs: Tensor, places: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Put new rows of a layer where they belong.

        Args:
            slabs, places: int64 [T], where each row goes.
            key, value: [T, kv heads, size].

        Returns:
            All keys and values of the layer, as ``layer`` gives them.
        """
        keys, values = self.layer(owner, layer)
        keys[slabs, :, places] = key
        values[slabs, :, places] = value
        return keys, values

    def set_length(self, owner: str, slab: int, length: int) -> None:
        """Declare the first ``length`` rows valid; rows behind are scratch."""
        self._lengths[owner][slab] = length

    def keep(self, owner: str, slab: int, rows: Sequence[int]) -> None:
        """Move scratch rows (offsets from the valid length) to its end and make them valid.

        Rows already in place, as on every chain, are not copied.
        """
        start = self._lengths[owner][slab]
        placed = next((i for i, row in enumerate(rows) if row != i), len(rows))
        if placed < len(rows):
            sources = [start + row for row in rows[placed:]]
            if owner in self._watched:
                self._watched[owner](slab, start + placed, sources)
            self.move(owner, slab, start + placed, sources)
        self._lengths[owner][slab] = start + len(rows)

    def move(self, owner: str, slab: int, start: int, rows: Sequence[int]) -> None:
        """Copy rows of a slab to ``start`` and the rows behind it."""
        source = to_device(torch.tensor(rows), self.device)
        for stack in self._stacks[owner].values():
            own = stack[:, slab]
            own[:, :, start : start + len(rows)] = own.index_select(2, source)

    def watch(self, owner: str, moved: Moved) -> None:
        """Call ``moved`` whenever rows of an owner are about to move."""
        self._watched[owner] = moved


def _counts(geometry: Iterable[LayerGeometry]) -> Counter[tuple[int, int]]:
    """How many tensors there are of each shape: heads and size."""
    return Counter(shape for layer in geometry for shape in layer.shapes)
