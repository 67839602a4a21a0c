"""What attention back ends have in common, and which one is meant by a name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specbench.models.checkpoint import require_device
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch


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
