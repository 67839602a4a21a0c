"""Time of a forward at least: its parts one after another, each as fast as memory or arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.roofline.cost import ATTENTION, Load, Part, Precision, forward
from specbench.roofline.devices import Device
from specbench.roofline.shape import Shape

MEMORY, ARITHMETIC = "memory", "arithmetic"
"""What limits a part."""

MOST_ROWS = 1024
"""Rows per request beyond which no budget is looked for."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A part and its bound; like parts of different layers are taken together.

    ``limit`` is what takes longer over all of them.
    """

    part: Part
    seconds: float
    limit: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A model on a device."""

    shape: Shape
    precision: Precision
    device: Device

    def parts(self, load: Load) -> list[Timed]:
        """The parts of a forward with their bounds, in order."""
        found: dict[str, list[Part]] = {}
        for part in forward(self.shape, self.precision, load, self.device.rows):
            found.setdefault(part.name, []).append(part)
        return [self._together(parts) for parts in found.values()]

    def seconds(self, load: Load) -> float:
        """Lower bound of one forward."""
        return sum(
            max(self._times(part))
            for part in forward(self.shape, self.precision, load, self.device.rows)
        )

    def products(self, load: Load) -> float:
        """The same without attention: what weights cost."""
        timed = self.parts(load)
        return sum(one.seconds for one in timed if one.part.name != ATTENTION)

    def cost(self, load: Load) -> float:
        """v: this forward in forwards of one row per request."""
        return self.seconds(load) / self.seconds(Load(load.batch, 1, load.context))

    @property
    def free_rows(self) -> int:
        """Rows of a forward, of all requests together, that the layers' matrices take for nothing:
        their arithmetic, in whole tiles, ends before their bytes are read. Within one tile rows are
        free in any case.
        """
        ridge = self.device.ridge(self.precision.dtype)
        rows = int(ridge * self.precision.matrix_bits / 8 / 2)
        tile = self.device.rows(self.precision.dtype)
        return max(tile, rows // tile * tile)

    def _times(self, part: Part) -> tuple[float, float]:
        return part.bytes / self.device.bandwidth, part.padded / self.device.peaks[part.dtype]

    def _together(self, parts: Sequence[Part]) -> Timed:
        times = [self._times(part) for part in parts]
        memory, arithmetic = (sum(kind) for kind in zip(*times, strict=True))
        whole = Part(
            parts[0].name,
            parts[0].dtype,
            sum(part.bytes for part in parts),
            sum(part.flops for part in parts),
            sum(part.padded for part in parts),
        )
        limit = MEMORY if memory >= arithmetic else ARITHMETIC
        return Timed(whole, sum(map(max, times)), limit)


def limit(parts: Sequence[Timed]) -> str:
    """The part that takes longest, and what limits it."""
    longest = max(parts, key=lambda timed: timed.seconds)
    return f"{longest.part.name}, {longest.limit}"


def row_budget(model: Placed, batch: int, context: int, slack: float, most: int = MOST_ROWS) -> int:
    """Most rows per request whose forward takes at most 1 + ``slack`` forwards of one row.

    Args:
        model: the target on its device.
        batch: requests.
        context: tokens of each in the cache.
        slack: a share, such as 0.1.
        most: rows at which the search ends.
    """
    allowed = (1 + slack) * model.seconds(Load(batch, 1, context))
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = model.seconds(Load(batch, middle, context)) <= allowed
        low, high = (middle, high) if fits else (low, middle)
    return low
