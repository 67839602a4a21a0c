"""Whether an error says that memory is full; libraries have no exception of their own for it."""

from __future__ import annotations

_SAID = ("out of memory", "can't allocate memory", "not enough memory")
"""Words of CUDA, of torch's allocator on Linux, and of its allocator on other systems."""


def out_of_memory(error: BaseException | None) -> bool:
    """Whether an error of torch or Python says that memory is full."""
    if isinstance(error, MemoryError):
        return True
    said = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in said for words in _SAID)
