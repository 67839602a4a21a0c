"""Attention on FlashInfer: planned on the host once per forward, run per layer on the GPU.

Chains are causal, single tokens take the decode kernel. A tree is either one call with a mask over
all rows, or two calls, the rows before the tree without a mask and the tree with a small one, that
are merged by the logs of their sums. Masks are handed over as bools: a packed mask of several
requests would be read from the wrong place (ALGORITHMS 7.2). Shapes: Hq query heads, Hkv key-value
heads, D head size, T packed tokens, n tokens of a segment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from specbench.decoding.transfer import passed, to_device
from specbench.errors import PrerequisiteError
from specbench.models import kernel_library
from specbench.models.attention.backend import Fixed, StaticPlan
from specbench.models.attention.paged import PAGE, PageTable, as_pages, page_table, query_indptr
from specbench.models.attention.sight import is_narrow, visible_rows, visible_tail
from specbench.models.graphs.buckets import seats
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch, Segment

LAYOUT = "HND"
WORKSPACE_BYTES = 128 * 2**20
"""What the library's own examples take; kernels of one stream can share it."""
HEAD_SIZES = (64, 128, 256)
DTYPES = (torch.bfloat16, torch.float16)
APART_FROM = 1024
"""Rows before a tree from which on they are read apart from it, without a mask.

A guess: where the mask begins to cost more than a second call has not been measured on a device.
"""


def require_flashinfer(device: torch.device) -> Any:
    """The library, where it can run; PrerequisiteError where it cannot, see ``kernel_library``."""
    asked, instead = "attention = flashinfer", "leave target.attention out"
    return kernel_library.require_library(kernel_library.FLASHINFER, str(device), asked, instead)


def require_kernels(owner: str, sizes: Collection[int], dtype: torch.dtype) -> None:
    """PrerequisiteError where it has no kernels for heads of these sizes in this type."""
    if dtype not in DTYPES:
        raise PrerequisiteError(
            f"{owner}: FlashInfer has no kernels for {str(dtype).removeprefix('torch.')}",
            "set dtype = bfloat16, or leave target.attention out",
        )
    if len(sizes) != 1 or not set(sizes) <= set(HEAD_SIZES):
        raise PrerequisiteError(
            f"{owner}: FlashInfer is used for heads of {_listed(HEAD_SIZES)} alone, and these "
            f"are of {_listed(sorted(sizes))}",
            "leave target.attention out",
        )


class FlashInfer:
    """Wrappers of one device, kept from forward to forward.

    Args:
        library: the module ``flashinfer``, or what stands for it in tests.
        device: where workspace and masks live.
    """

    name = "flashinfer"

    def __init__(self, library: Any, device: torch.device) -> None:
        self.library = library
        self.device = device
        self._workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self._wrappers: dict[Hashable, Any] = {}
        # Wrappers of captures go with their pool; nothing here keeps them.
        self._taken: WeakKeyDictionary[Any, Callable[[], None]] = WeakKeyDictionary()

    def require(self, owner: str, layers: Sequence[LayerGeometry], dtype: torch.dtype) -> None:
        """PrerequisiteError where it has no kernels for these layers."""
        sizes = {size for layer in layers for size in (layer.key_size, layer.value_size)}
        require_kernels(owner, sizes, dtype)

    def plan(self, pool: KVPool, owner: str, batch: PackedBatch) -> FlashInferPlan:
        """A planned forward."""
        return FlashInferPlan(self, pool, owner, batch)

    def seats(self, pool: KVPool, slabs: Sequence[int]) -> tuple[int, list[int]]:
        """One behind the other: pages are read wherever they lie."""
        return seats(len(slabs), pool.slabs), list(range(len(slabs)))

    def static(self, fixed: Fixed) -> StaticPlan:
        """Plan forwards of one shape."""
        from specbench.models.attention.flashinfer_static import static_plan

        return static_plan(self, fixed)

    @property
    def workspace(self) -> Tensor:
        """Scratch memory of kernels, uint8; what lies in it does not outlive a call."""
        return self._workspace

    def plan_on(self, wrapper: Any, *numbers: Any, **how: Any) -> None:
        """Plan with a wrapper.

        Results go to the device from page-locked memory of the wrapper, and the library does not
        wait until they are there before the next plan writes over them (mini-sglang's pull request
        103 describes what that does). So the device must have taken the plan before; the host is
        ahead of it by one forward of a shape at most.
        """
        if wrapper in self._taken:
            self._taken[wrapper]()
        wrapper.plan(*numbers, **how)
        self._taken[wrapper] = passed(self.device)

    def wrapper(self, kind: str, settings: Hashable) -> Any:
        """The wrapper of a class, one for every way in which layers of a forward differ."""
        name = (kind, settings)
        if name not in self._wrappers:
            made = getattr(self.library, kind)
            self._wrappers[name] = made(self._workspace, LAYOUT)
        return self._wrappers[name]


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a plan depends on beside the batch."""

    heads: int
    kv_heads: int
    size: int
    scaling: float
    window: int | None
    dtype: torch.dtype


Run = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""(query [T, Hq, D], pages of keys, of values, new keys, new values [T, Hkv, D]) -> [T, Hq, D]."""


@dataclass(slots=True)
class FlashInferPlan:
    """One planned forward; see ``attention.sdpa.SdpaPlan``, of which it is the twin."""

    backend: FlashInfer
    pool: KVPool
    owner: str
    batch: PackedBatch
    splits: bool = True
    """Whether trees behind a long prefix are read in two calls."""
    _planned: dict[_Shape, Run] = field(default_factory=dict)

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
        batch, new = self.batch, (key[0].transpose(0, 1), value[0].transpose(0, 1))
        keys, values = self.pool.write(self.owner, layer, batch.slabs, batch.places, *new)
        shape = _Shape(query.shape[1], key.shape[1], key.shape[3], scaling, window, query.dtype)
        if shape not in self._planned:
            # All layers of one shape share a plan.
            self._planned[shape] = self._plan(shape)
        run = self._planned[shape]
        return run(query[0].transpose(0, 1), as_pages(keys), as_pages(values), *new)[None]

    def _plan(self, shape: _Shape) -> Run:
        segments = self.batch.segments
        if all(segment.visible is None for segment in segments):
            single = all(segment.count == 1 for segment in segments)
            return self._decode(shape) if single else self._causal(shape)
        narrow = any(is_narrow(segment, shape.window) for segment in segments)
        own = all(segment.tail == segment.count for segment in segments)
        far = max(segment.before for segment in segments) >= APART_FROM
        apart = self.splits and far and own and not narrow
        return self._apart(shape) if apart else self._masked(shape)

    def _wrapper(self, kind: str, settings: Hashable) -> Any:
        return self.backend.wrapper(kind, settings)

    def _decode(self, shape: _Shape) -> Run:
        """One token per request."""
        wrapper = self._wrapper("BatchDecodeWithPagedKVCacheWrapper", shape)
        table = self._table(shape, [s.start + s.count for s in self.batch.segments])
        self.backend.plan_on(
            wrapper,
            *(table.indptr, to_device(table.indices, self.backend.device), table.last),
            *(shape.heads, shape.kv_heads, shape.size, PAGE),
            window_left=_left(shape.window),
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
            sm_scale=shape.scaling,
        )
        return lambda query, keys, values, *new: wrapper.run(query, (keys, values))

    def _causal(self, shape: _Shape) -> Run:
        """Prompts and chains."""
        rows = [segment.start + segment.count for segment in self.batch.segments]
        wrapper = self._paged(shape, rows, causal=True, window_left=_left(shape.window))
        return lambda query, keys, values, *new: wrapper.run(query, (keys, values))

    def _masked(self, shape: _Shape) -> Run:
        """Trees behind a mask over all rows; windows are in the mask."""
        segments = self.batch.segments
        mask = torch.cat([_whole(segment, shape.window).flatten() for segment in segments])
        rows = [segment.start + segment.count for segment in segments]
        wrapper = self._paged(shape, rows, custom_mask=to_device(mask, self.backend.device))
        return lambda query, keys, values, *new: wrapper.run(query, (keys, values))

    def _apart(self, shape: _Shape) -> Run:
        """Trees behind a small mask, and the rows before them without one."""
        segments = self.batch.segments
        prefix = self._paged(shape, [segment.before for segment in segments])
        counts = query_indptr([segment.count for segment in segments])
        mask = torch.cat([visible_tail(segment).flatten() for segment in segments])
        tree = self._wrapper("BatchPrefillWithRaggedKVCacheWrapper", shape)
        self.backend.plan_on(
            tree,
            *(counts, counts, shape.heads, shape.kv_heads, shape.size),
            custom_mask=to_device(mask, self.backend.device),
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
            sm_scale=shape.scaling,
        )

        def run(query: Tensor, keys: Tensor, values: Tensor, *new: Tensor) -> Tensor:
            before = prefix.run(query, (keys, values), return_lse=True)
            own = tree.run(query, *(part.contiguous() for part in new), return_lse=True)
            merged: Tensor = self.backend.library.merge_state(*before, *own)[0]
            return merged

        return run

    def _paged(self, shape: _Shape, rows: list[int], **how: Any) -> Any:
        """A planned wrapper over the first rows of each request."""
        settings = (shape, *sorted(how))
        wrapper = self._wrapper("BatchPrefillWithPagedKVCacheWrapper", settings)
        table = self._table(shape, rows)
        self.backend.plan_on(
            wrapper,
            query_indptr([segment.count for segment in self.batch.segments]),
            # Of indices on the host, plans into fixed buffers make a copy that the host waits for.
            *(table.indptr, to_device(table.indices, self.backend.device), table.last),
            *(shape.heads, shape.kv_heads, shape.size, PAGE),
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
            sm_scale=shape.scaling,
            **how,
        )
        return wrapper

    def _table(self, shape: _Shape, rows: list[int]) -> PageTable:
        slabs = [segment.slab for segment in self.batch.segments]
        return page_table(slabs, rows, shape.kv_heads, self.pool.capacity)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes))


def _left(window: int | None) -> int:
    """Rows that a token sees before its own; -1 for all."""
    return -1 if window is None else window - 1


def _whole(segment: Segment, window: int | None) -> Tensor:
    """bool [n, all rows of the request], on the host."""
    first, visible = visible_rows(segment, window)
    return torch.cat([torch.zeros(segment.count, first, dtype=torch.bool), visible], 1)
