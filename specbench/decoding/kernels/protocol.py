"""What applies sampling settings to rows: a softmax and two truncations, by torch or a library.

What kernels give for a row is its law, and they all mean the same by it: sums may round differently
and nothing else may. Order, greedy rows, penalties and min-p are not theirs
(``decoding.sampling``). Shapes: M rows, V vocabulary.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Kernels(Protocol):
    """A set of kernels.

    Attributes:
        name: as ``target.sampler`` names it.
    """

    name: str

    def softmax(self, logits: Tensor, temperature: float) -> Tensor:
        """softmax(logits / temperature), float32 [M, V]; -inf gives 0.

        Args:
            logits: [M, V] of any float type, at least one per row above -inf.
            temperature: above 0.
        """
        ...

    def top_k(self, probs: Tensor, k: int) -> Tensor:
        """Each row's k likeliest tokens, renormalised, and all that are as likely as the k-th.

        Args:
            probs: float32 [M, V].
            k: above 0 and below V.
        """
        ...

    def top_p(self, probs: Tensor, p: float) -> Tensor:
        """Each row's fewest likeliest tokens that reach mass p, renormalised.

        All that are as likely as the last of them are kept too.

        Args:
            probs: float32 [M, V], rows of mass 1.
            p: above 0 and below 1.
        """
        ...
