"""What attention back ends have in common, and which one is meant by a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specbench.models.checkpoint import require_device
from specbench.models.graphs.buckets import Bucket
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch, Segment


class Plan(Protocol):
    """One planned forward: where KV is written and read, and what all layers share."""

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
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """What forwards of one shape have in common.

    Attributes:
        pool, owner: whose storage is used.
        bucket: the shape, of R seats and W tokens of each.
        positions, slabs, places: int64 [R * W] of the tokens, filled anew before every forward.
    """

    pool: KVPool
    owner: str
    bucket: Bucket
    positions: Tensor
    slabs: Tensor
    places: Tensor


class StaticPlan(Plan, Protocol):
    """Forwards of one shape, over tensors that stay where they are; ``run`` reads nothing else."""

    def begin(self) -> None:
        """A forward begins."""
        ...

    def fill(self, segments: Sequence[Segment]) -> None:
        """Plan the next forward: one segment of the shape's width per seat."""
        ...


class Attention(Protocol):
    """A back end.

    Attributes:
        name: as ``target.attention`` names it.
    """

    name: str

    def require(self, owner: str, layers: Sequence[LayerGeometry], dtype: torch.dtype) -> None:
        """PrerequisiteError where it has no kernels for these layers."""
        ...

    def plan(self, pool: KVPool, owner: str, batch: PackedBatch) -> Plan:
        """Plan a forward of one owner of the pool."""
        ...

    def seats(self, pool: KVPool, slabs: Sequence[int]) -> tuple[int, list[int]]:
        """How many seats a static forward of requests at these slabs needs, and theirs."""
        ...

    def static(self, fixed: Fixed) -> StaticPlan:
        """Plan forwards of one shape."""
        ...


def attention_named(name: str, device: str) -> Attention:
    """The back end of an experiment.

    Args:
        name: ``sdpa`` or ``flashinfer``.
        device: of the target, as torch names it.

    Raises:
        UsageError: no such device.
        PrerequisiteError: it cannot run here.
    """
    if name == "flashinfer":
        from specbench.models.attention.flashinfer import FlashInfer, require_flashinfer

        found = require_device(torch, device)
        return FlashInfer(require_flashinfer(found), found)
    from specbench.models.attention.sdpa import SDPA

    return SDPA
