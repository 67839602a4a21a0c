"""Errors that say that memory is full."""

from __future__ import annotations

import pytest
import torch

from specbench.core.full_memory import out_of_memory


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes"), True),
        (RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
        (None, False),
    ],
)
def test_what_says_so(error, full):
    assert out_of_memory(error) is full


def test_torch_on_this_machine_is_understood():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55, dtype=torch.float32)
    assert out_of_memory(caught.value)
