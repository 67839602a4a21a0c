"""What keeps keys and values in the KV pool under the name of an owner."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.models.attention.backend import Attention, Plan
from specbench.models.attention.sdpa import SDPA
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch


class Pooled:
    """A model with storage in a pool.

    Args:
        owner: name of its storage.
        layers: KV shapes per layer.
        dtype: of its keys and values.
        attention: the back end of its layers.

    Raises:
        PrerequisiteError: a back end without kernels for such layers.
    """

    def __init__(
        self,
        owner: str,
        layers: Sequence[LayerGeometry],
        dtype: torch.dtype,
        attention: Attention = SDPA,
    ) -> None:
        attention.require(owner, layers, dtype)
        self.attention = attention
        self.owner = owner
        self.dtype = dtype
        self._layers = tuple(layers)
        self._pool: KVPool | None = None

    @property
    def pool(self) -> KVPool:
        """The pool in use."""
        assert self._pool is not None, "use(pool) comes before forward"
        return self._pool

    def plan(self, batch: PackedBatch) -> Plan:
        """The attention of one forward."""
        return self.attention.plan(self.pool, self.owner, batch)

    def use(self, pool: KVPool) -> None:
        """Read and write KV in this pool from now on; the owner must exist there."""
        self._pool = pool

    def forget(self) -> None:
        """Let go of the pool."""
        self._pool = None

    def geometry(self) -> list[LayerGeometry]:
        """KV shapes per layer."""
        return list(self._layers)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values per token."""
        return sum(
            self.dtype.itemsize * layer.kv_heads * (layer.key_size + layer.value_size)
            for layer in self._layers
        )
