"""Bytes and FLOPs of one forward: weights read once, keys and values once per request.

ALGORITHMS 2.4. Left out, so that what follows is a lower bound: activations, norms, softmax and
sampling, and what several devices tell each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from specbench.roofline.devices import BITS
from specbench.roofline.shape import Attention, Experts, Shape

MATRICES, EXPERTS, ATTENTION, OUTPUT = "matrices", "experts", "attention", "output projection"
"""The parts of a forward."""


@dataclass(frozen=True, slots=True)
class Precision:
    """How numbers are stored and multiplied.

    Attributes:
        dtype: of ``devices.BITS``, in which matrices are multiplied; ends are stored in it.
        matrix_bits, expert_bits: stored bits of a parameter of the layers and of routed experts.
        kv_bits: of an element of the KV cache.
    """

    dtype: str
    matrix_bits: float
    expert_bits: float
    kv_bits: float

    @property
    def end_dtype(self) -> str:
        """Of the embedding and the output projection: 16 bits where the rest is in 8."""
        return self.dtype if BITS[self.dtype] >= 16 else "bfloat16"

    @property
    def end_bits(self) -> float:
        """Bits of ``end_dtype``."""
        return BITS[self.end_dtype]

    @property
    def kv_dtype(self) -> str:
        """In which scores and values are multiplied: 8 bits where the cache is in 8 as well."""
        return self.dtype if self.kv_bits <= BITS[self.dtype] else self.end_dtype


@dataclass(frozen=True, slots=True)
class Load:
    """What one forward is given.

    Attributes:
        batch: requests.
        rows: tokens of each: 1 in plain decoding, K + 1 in a verification.
        context: tokens of each that are in the cache already.
    """

    batch: int
    rows: int
    context: int

    @property
    def tokens(self) -> int:
        """Rows of its matrix products."""
        return self.batch * self.rows


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a forward.

    Attributes:
        name: what.
        dtype: in which it is multiplied.
        bytes: read.
        flops: of the rows that there are.
        padded: of the rows that the device computes.
    """

    name: str
    dtype: str
    bytes: float
    flops: float
    padded: float


def touched(experts: Experts, tokens: float) -> float:
    """Distinct experts of a layer that tokens meet, expected, if every choice is as likely."""
    return experts.total * (1 - math.pow(1 - experts.chosen / experts.total, tokens))


def padded_rows(rows: float, tile: int) -> float:
    """Rows in whole tiles; a tile of one row pads nothing."""
    return rows if tile == 1 else -(-rows // tile) * tile


Tile = Callable[[str], int]
"""Rows to which matrix products of a dtype are padded, as ``Device.rows`` says."""


def forward(shape: Shape, precision: Precision, load: Load, tile: Tile) -> list[Part]:
    """What one forward reads and computes, part by part.

    Args:
        shape: of the model.
        precision: how it is stored.
        load: requests, rows and context.
        tile: of the device.
    """
    rows, matrices = load.tokens, shape.matrices
    size = matrices * precision.matrix_bits / 8
    parts = [_product(MATRICES, precision.dtype, matrices, size, rows, tile)]
    for layers in shape.layers:
        if layers.experts:
            parts.append(_experts(layers.experts, layers.count, precision, rows, tile))
        if layers.attention:
            parts.append(_attention(layers.attention, layers.count, precision, load))
    size = shape.output * precision.end_bits / 8
    uses = rows * shape.output_uses
    parts.append(_product(OUTPUT, precision.end_dtype, shape.output, size, uses, tile))
    return parts


def _product(name: str, dtype: str, matrices: int, size: float, rows: int, tile: Tile) -> Part:
    whole = padded_rows(rows, tile(dtype))
    return Part(name, dtype, size, 2 * matrices * rows, 2 * matrices * whole)


def _experts(experts: Experts, count: int, precision: Precision, rows: int, tile: Tile) -> Part:
    """Each expert that is touched is read once and computes its rows in tiles of its own."""
    met = touched(experts, rows)
    own = rows * experts.chosen / met
    size = count * met * experts.parameters * precision.expert_bits / 8
    useful = 2.0 * count * rows * experts.chosen * experts.parameters
    # Rows spread over the experts by chance: the mean is a lower bound of what the tiles hold.
    whole = padded_rows(own, tile(precision.dtype))
    return Part(EXPERTS, precision.dtype, size, useful, useful * whole / own)


def _attention(attention: Attention, count: int, precision: Precision, load: Load) -> Part:
    """Every key is read once for all rows and heads of its request that see it."""
    keys = _keys_read(attention, load.rows, load.context)
    size = load.batch * count * keys * attention.kv_elements * precision.kv_bits / 8
    seen = sum(_seen(attention, load.rows, load.context))
    flops = float(load.batch * count * seen * attention.pair_flops)
    return Part(ATTENTION, precision.kv_dtype, size, flops, flops)


def _keys_read(attention: Attention, rows: int, context: int) -> int:
    if attention.window is None:
        return context + rows
    return min(context, attention.window - 1) + rows


def _seen(attention: Attention, rows: int, context: int) -> Iterator[int]:
    """Keys that each row sees, itself among them."""
    for row in range(rows):
        keys = context + row + 1
        yield keys if attention.window is None else min(keys, attention.window)
