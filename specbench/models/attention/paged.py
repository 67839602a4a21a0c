"""The KV pool as FlashInfer sees it: pages of 16 rows, and which of them belong to a request.

The pool keeps a request's rows one behind the other for every head, [slabs, kv heads, capacity,
head size]. Kernels that read pages take strides, so the same memory is a table of pages [pages,
kv heads, 16, head size] whose heads lie ``capacity`` rows apart; nothing is copied. Work is split
at pages, which is why a slab is not one large page: a single request would occupy few processors.
Shapes: B requests, N pages that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

PAGE = 16
"""Rows of a page; capacities of pools are multiples of it."""


@dataclass(frozen=True, slots=True)
class PageTable:
    """Pages of B requests, all int32 on the host.

    Attributes:
        indptr: [B + 1], where a request's entries in ``indices`` begin.
        indices: [N], numbers of pages in the order of their rows.
        last: [B], rows of each request's last page, 1 .. ``PAGE``; meaningless without pages.
    """

    indptr: Tensor
    indices: Tensor
    last: Tensor


def page_table(
    slabs: Sequence[int], rows: Sequence[int], kv_heads: int, capacity: int
) -> PageTable:
    """The pages of the first ``rows`` rows of each request.

    Args:
        slabs: [B] where the requests lie.
        rows: [B] how many rows are read; none is possible.
        kv_heads, capacity: of the pool's layers.
    """
    counts = np.array([-(-n // PAGE) for n in rows], dtype=np.int64)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    firsts = np.array(slabs, dtype=np.int64) * (kv_heads * capacity // PAGE)
    offsets = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
    last = [(n - 1) % PAGE + 1 for n in rows]
    return PageTable(
        torch.from_numpy(indptr.astype(np.int32)),
        torch.from_numpy((np.repeat(firsts, counts) + offsets).astype(np.int32)),
        torch.tensor(last, dtype=torch.int32),
    )


def as_pages(layer: Tensor) -> Tensor:
    """A layer's keys or values [slabs, kv heads, capacity, head size] as its table of pages.

    Page ``slab * kv heads * capacity / PAGE + i`` holds rows ``PAGE * i`` onwards of a slab.
    """
    slabs, heads, capacity, size = layer.shape
    if capacity % PAGE or not layer.is_contiguous():
        raise ValueError(f"a layer of {tuple(layer.shape)} has no pages of {PAGE} rows")
    pages = ((slabs - 1) * heads + 1) * (capacity // PAGE)
    return layer.as_strided((pages, heads, PAGE, size), (PAGE * size, capacity * size, size, 1))


def query_indptr(counts: Sequence[int]) -> Tensor:
    """int32 [B + 1] on the host: where each request's packed tokens begin."""
    return torch.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
