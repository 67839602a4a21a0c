"""FlashInfer's plans over fixed shapes, whose kernels a CUDA graph can hold.

A plan is made on the host and cannot be recorded; its results go into buffers that the wrapper was
given, and the recorded kernels read them there (``use_cuda_graph`` of the wrappers). Trees are read
behind one mask: how far a prefix reaches differs from step to step, and with it the kernels of two
calls would. Shapes: R seats, W tokens of each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specbench.models.attention.backend import Fixed
from specbench.models.attention.flashinfer import LAYOUT, FlashInferPlan
from specbench.models.attention.paged import PAGE
from specbench.models.graphs.buckets import Bucket
from specbench.models.packed_batch import PackedBatch, Segment

if TYPE_CHECKING:
    from specbench.models.attention.flashinfer import FlashInfer


@dataclass(slots=True)
class StaticFlashInfer(FlashInferPlan):
    """A plan that is made again for every forward, with wrappers of its own.

    Attributes:
        bucket: the shape.
    """

    bucket: Bucket = field(kw_only=True)
    _wrappers: dict[Hashable, Any] = field(default_factory=dict)

    def begin(self) -> None:
        """Plans are made by ``fill``."""

    def fill(self, segments: Sequence[Segment]) -> None:
        """Plan for all kinds of layers that were met so far."""
        self.batch = replace(self.batch, segments=tuple(segments))
        for shape in self._planned:
            self._planned[shape] = self._plan(shape)

    def _wrapper(self, kind: str, settings: Hashable) -> Any:
        name = (kind, settings)
        if name not in self._wrappers:
            made = getattr(self.backend.library, kind)
            buffers = self._buffers("Decode" in kind)
            self._wrappers[name] = made(
                self.backend.workspace, LAYOUT, use_cuda_graph=True, **buffers
            )
        return self._wrappers[name]

    def _buffers(self, decode: bool) -> dict[str, Tensor]:
        """Where plans are put; every wrapper has its own, as it reads them when it is replayed."""
        seats, device = self.bucket.requests, self.pool.device
        pages = seats * (self.pool.capacity // PAGE)

        def numbers(count: int) -> Tensor:
            return torch.zeros(count, dtype=torch.int32, device=device)

        if decode:
            return {
                "paged_kv_indptr_buffer": numbers(seats + 1),
                "paged_kv_indices_buffer": numbers(pages),
                "paged_kv_last_page_len_buffer": numbers(seats),
            }
        table = {
            "qo_indptr_buf": numbers(seats + 1),
            "paged_kv_indptr_buf": numbers(seats + 1),
            "paged_kv_indices_buf": numbers(pages),
            "paged_kv_last_page_len_buf": numbers(seats),
        }
        if not self.bucket.tree:
            return table
        # Bits of a request's mask are padded to whole bytes.
        size = seats * (-(-self.bucket.width * self.pool.capacity // 8))
        mask = torch.zeros(size, dtype=torch.uint8, device=device)
        return table | {"custom_mask_buf": mask, "mask_indptr_buf": numbers(seats + 1)}


def static_plan(backend: FlashInfer, fixed: Fixed) -> StaticFlashInfer:
    """See ``attention.backend.Attention.static``."""
    numbers = fixed.positions
    batch = PackedBatch((), numbers, numbers, numbers, fixed.slabs, fixed.places)
    return StaticFlashInfer(
        backend, fixed.pool, fixed.owner, batch, splits=False, bucket=fixed.bucket
    )
