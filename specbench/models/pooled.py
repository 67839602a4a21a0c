"""What keeps keys and values in the KV pool under the name of an owner."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specbench.models.attention.backend import Attention, Plan
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.captured import Graphs, Kind, Place, Run
from specbench.models.graphs.record import Outputs
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch
from specbench.models.parallel.group import Group
from specbench.models.parallel.leader import Leader, broken_group


class Pooled:
    """A model with storage in a pool.

    Args:
        owner: name of its storage.
        layers: KV shapes per layer.
        dtype: of its keys and values.
        attention: the back end of its layers.
        graphs: captured forwards; None where all run eagerly.
        group: processes that share its layers and key-value heads; ``layers`` are whole.

    Raises:
        PrerequisiteError: a back end without kernels for such layers.
    """

    def __init__(
        self,
        owner: str,
        layers: Sequence[LayerGeometry],
        dtype: torch.dtype,
        attention: Attention = SDPA,
        graphs: Graphs | None = None,
        group: Group | None = None,
    ) -> None:
        attention.require(owner, layers, dtype)
        self.attention = attention
        self.graphs = graphs
        self.group = group
        self.leader = Leader(group) if group is not None and group.leads else None
        shards = 1 if group is None else group.size
        self.owner = owner
        self.dtype = dtype
        self._layers = tuple(replace(layer, kv_heads=layer.kv_heads // shards) for layer in layers)
        self._pool: KVPool | None = None

    @property
    def pool(self) -> KVPool:
        """The pool in use."""
        assert self._pool is not None, "use(pool) comes before forward"
        return self._pool

    def plan(self, batch: PackedBatch) -> Plan:
        """The attention of one forward."""
        return self.attention.plan(self.pool, self.owner, batch)

    def compute(
        self,
        how: Hashable,
        batch: PackedBatch,
        run: Run,
        hidden: Tensor | None = None,
        *,
        fresh: bool = False,
    ) -> Outputs:
        """One forward, replayed where its shape was captured.

        Args:
            how: tells forwards of the same shape apart.
            batch: as ``pack`` makes it.
            run: the forward, on tensors on the pool's device.
            hidden: a further input per token.
            fresh: of heads, see ``heads.packed.PackedHead.forward``.

        Raises:
            SpecbenchError: a forward that other processes share, whatever went wrong in it.
        """
        if self.graphs is not None:
            found = self.graphs.forward(Kind(self.owner, how), batch, run, hidden)
            if found is not None:
                return found
        if self.leader is not None:
            self.leader.forward(self.owner, batch, hidden, fresh)
        batch = batch.to(self.pool.device)
        plan = self.plan(batch)
        try:
            return run(batch.ids, batch.positions, batch.logit_rows, plan, hidden)
        except Exception as error:
            if self.leader is None:
                raise
            raise broken_group(error) from error

    def use(self, pool: KVPool) -> None:
        """Read and write KV in this pool from now on; the owner must exist there."""
        if self.graphs is not None:
            self.graphs.settle(self.owner, Place(pool, self.attention))
        self._pool = pool
        if self.leader is not None:
            self.leader.use(self.owner, pool)

    def follow(self, batch: PackedBatch, hidden: Tensor | None, fresh: bool) -> None:
        """Take part in a forward of another process; see ``models.parallel``."""
        raise NotImplementedError(f"{self.owner} has no parts")

    def unpacked(self, ids: Tensor) -> Tensor:
        """Logits of a prompt without the pool, where there is such a way."""
        raise NotImplementedError(f"{self.owner} runs in the pool alone")

    def forget(self) -> None:
        """Let go of the pool."""
        if self.graphs is not None:
            self.graphs.forget(self.owner)
        self._pool = None

    def geometry(self) -> list[LayerGeometry]:
        """KV shapes per layer."""
        return list(self._layers)

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values per token, in all processes."""
        shards = 1 if self.group is None else self.group.size
        return shards * sum(
            self.dtype.itemsize * layer.kv_heads * (layer.key_size + layer.value_size)
            for layer in self._layers
        )
