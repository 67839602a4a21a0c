"""Counter-based random numbers: the same key gives the same number, whatever the batch.

Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, section 4.2). A number is addressed by (request seed, stream, index, node):

* ``DRAFT``, ``ACCEPT``, ``RESIDUAL`` and ``BONUS`` use the request's step index, so that noise is
  fresh in every step. Keying them by absolute position is wrong for block and traversal
  verification, where a position can be examined again in a later step.
* ``TARGET`` uses the absolute position of the token, so that plain sampling and ``target_match``
  draw the same token at the same place.

The request seed already contains run seed, item, turn and repeat.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = 0x9E3779B9
_WEYL_1 = 0xBB67AE85
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10

UInt64 = npt.NDArray[np.uint64]


class Stream(IntEnum):
    """Disjoint streams; sharing one between two uses biases the output law."""

    DRAFT = 0
    ACCEPT = 1
    RESIDUAL = 2
    BONUS = 3
    TARGET = 4


def philox(counter: tuple[UInt64, ...], key: tuple[UInt64, UInt64]) -> tuple[UInt64, ...]:
    """Philox4x32-10 over arrays: four counter words and two key words, each below 2**32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for turn in range(_ROUNDS):
        if turn:
            k0 = (k0 + np.uint64(_WEYL_0)) & _MASK
            k1 = (k1 + np.uint64(_WEYL_1)) & _MASK
        product_0 = c0 * _MULTIPLIER_0
        product_1 = c2 * _MULTIPLIER_1
        c0, c1, c2, c3 = (
            (product_1 >> _SHIFT) ^ c1 ^ k0,
            product_1 & _MASK,
            (product_0 >> _SHIFT) ^ c3 ^ k1,
            product_0 & _MASK,
        )
    return c0, c1, c2, c3


def uniforms(
    seeds: npt.ArrayLike, stream: npt.ArrayLike, index: npt.ArrayLike, node: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1) with 53 random bits, one per broadcast element.

    Args:
        seeds: request seeds, unsigned 64-bit.
        stream: ``Stream`` values.
        index: step index of the request, or absolute position for ``Stream.TARGET``.
        node: node or trial within the step; 0 where there is only one.
    """
    seed, lane, place, sub = np.broadcast_arrays(
        np.asarray(seeds, dtype=np.uint64),
        np.asarray(stream, dtype=np.uint64),
        np.asarray(index, dtype=np.uint64),
        np.asarray(node, dtype=np.uint64),
    )
    high, low, _, _ = philox(
        (place & _MASK, sub & _MASK, lane & _MASK, place >> _SHIFT),
        (seed & _MASK, seed >> _SHIFT),
    )
    bits = ((high << _SHIFT) | low) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53
