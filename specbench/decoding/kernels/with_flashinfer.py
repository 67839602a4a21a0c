"""Sampling settings by FlashInfer's renormalising kernels, on CUDA devices.

Read in FlashInfer 0.6.18: ``softmax`` takes logits with -inf, ``top_k_renorm_probs`` and
``top_p_renorm_probs`` keep by value, so tokens that are equal at the border stay together, as
``Kernels`` has it; applied one after the other they are the library's ``top_k_first``, which is our
order. Where our law has no kernel (min-p, penalties, temperature 0) torch is used.

Not used are the library's samplers. Their draws come from streams of their own, and a request's
tokens would depend on its neighbours; plain decoding and ``target_match`` would no longer agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor


class FlashInferKernels:
    """Implements ``decoding.kernels.protocol.Kernels``.

    Args:
        library: the module ``flashinfer``, or what stands for it in tests.
    """

    name = "flashinfer"

    def __init__(self, library: Any) -> None:
        found = library.sampling
        self._softmax: Callable[..., Tensor] = found.softmax
        self._top_k = _repeatable(found.top_k_renorm_probs)
        self._top_p = _repeatable(found.top_p_renorm_probs)

    def softmax(self, logits: Tensor, temperature: float) -> Tensor:
        """The online softmax; see ``Kernels``."""
        # Rows cut to the target's vocabulary are views; kernels take whole ones.
        return self._softmax(logits.contiguous(), temperature=temperature)

    def top_k(self, probs: Tensor, k: int) -> Tensor:
        """A radix search for the k-th value; see ``Kernels``."""
        return self._top_k(probs, k)

    def top_p(self, probs: Tensor, p: float) -> Tensor:
        """A radix search for the last value that reaches mass p; see ``Kernels``."""
        return self._top_p(probs, p)


def _repeatable(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The kernel with sums that come out the same every time, where its version can do that.

    The same row is sometimes needed twice in a step, and must be the same row.
    """
    switch = "is_deterministic"
    known = switch in inspect.signature(kernel).parameters
    return partial(kernel, **{switch: True}) if known else kernel
