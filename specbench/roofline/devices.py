"""What devices can do at most, as their makers say, and what was measured here.

Rates are dense: where a data sheet counts half of the numbers as zeros ("with sparsity"), half of
its figure stands here. 16-bit rates add up in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from specbench.roofline import sheets
from specbench.roofline.sheets import Sheet

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8": 8}
"""Types of numbers that matrices are multiplied in, and their size."""

TILE = 64
"""Rows of a matrix tile on a GPU: fewer rows cost as much. The smallest of Hopper's (wgmma)."""


@dataclass(frozen=True, slots=True)
class Device:
    """One device, or several of a kind.

    Attributes:
        name: as typed.
        title: as its maker calls it.
        bandwidth: of its memory, bytes/s.
        peaks: dtype -> FLOP/s of matrix products.
        memory: bytes.
        source: where the figures are from, in words.
        sheet: the maker's document; None for a device that was measured.
        tile: rows to which 16-bit and 8-bit matrix products are padded.
        drivers: how names begin by which a driver reports it.
        count: how many of it work as one.
    """

    name: str
    title: str
    bandwidth: float
    peaks: Mapping[str, float]
    memory: float
    source: str
    tile: int = TILE
    drivers: tuple[str, ...] = ()
    count: int = 1
    sheet: Sheet | None = None

    def ridge(self, dtype: str) -> float:
        """FLOP per byte above which arithmetic, and below which memory is the limit."""
        return self.peaks[dtype] / self.bandwidth

    def rows(self, dtype: str) -> int:
        """Rows of a tile; float32 products do not run in such tiles."""
        return 1 if dtype == "float32" else self.tile

    def times(self, count: int) -> Device:
        """So many of it as one: work is split evenly, and what they tell each other is free."""
        return replace(
            self,
            bandwidth=self.bandwidth * count,
            peaks={dtype: rate * count for dtype, rate in self.peaks.items()},
            memory=self.memory * count,
            count=self.count * count,
        )


def _device(
    name: str,
    title: str,
    tb_s: float,
    gb: float,
    tflops: tuple[float | None, float | None, float | None],
    sheet: Sheet,
    *drivers: str,
) -> Device:
    """An entry from TB/s, GB and TFLOP/s in 32, 16 and 8 bits; None where it has no such units."""
    single, half, quarter = tflops
    rates = {"float32": single, "float16": half, "bfloat16": half, "float8": quarter}
    if name in NO_BFLOAT16:
        del rates["bfloat16"]
    peaks = {dtype: rate * 1e12 for dtype, rate in rates.items() if rate is not None}
    return Device(
        name, title, tb_s * 1e12, peaks, gb * 1e9, sheet.title, drivers=drivers, sheet=sheet
    )


NO_BFLOAT16 = ("v100", "t4")

DEVICES = {
    device.name: device
    for device in (
        _device(
            "h200", "NVIDIA H200 SXM", 4.8, 141, (67, 989, 1979), sheets.H200, "NVIDIA H200",
        ),
        _device(
            "h100", "NVIDIA H100 SXM", 3.35, 80, (67, 989, 1979), sheets.H100,
            "NVIDIA H100 80GB HBM3",
        ),
        _device(
            "h100-nvl", "NVIDIA H100 NVL", 3.9, 94, (60, 835.5, 1670.5), sheets.H100,
            "NVIDIA H100 NVL",
        ),
        _device(
            "h100-pcie", "NVIDIA H100 PCIe", 2.0, 80, (51, 756, 1513), sheets.H100_PCIE,
            "NVIDIA H100 PCIe",
        ),
        _device(
            "gh200", "NVIDIA GH200, 96 GB HBM3", 4.0, 96, (67, 990, 1979), sheets.GH200,
            "NVIDIA GH200 480GB",
        ),
        _device(
            "gh200-144", "NVIDIA GH200, 144 GB HBM3e", 4.9, 144, (67, 990, 1979), sheets.GH200,
            "NVIDIA GH200 144G HBM3e",
        ),
        _device(
            "a100", "NVIDIA A100 80GB SXM", 2.039, 80, (19.5, 312, None), sheets.A100,
            "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM-80GB",
        ),
        _device(
            "a100-pcie", "NVIDIA A100 80GB PCIe", 1.935, 80, (19.5, 312, None), sheets.A100,
            "NVIDIA A100 80GB PCIe",
        ),
        _device(
            "a100-40", "NVIDIA A100 40GB", 1.555, 40, (19.5, 312, None), sheets.A100,
            "NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB",
        ),
        _device("a10", "NVIDIA A10", 0.6, 24, (31.2, 125, None), sheets.A10, "NVIDIA A10"),
        _device("b200", "NVIDIA B200", 8.0, 180, (75, 2250, 4500), sheets.B200, "NVIDIA B200"),
        _device("b300", "NVIDIA B300", 7.7, 270, (75, 2250, 4500), sheets.B300, "NVIDIA B300"),
        _device("l40s", "NVIDIA L40S", 0.864, 48, (91.6, 362, 733), sheets.L40S, "NVIDIA L40S"),
        _device("l4", "NVIDIA L4", 0.3, 24, (30.3, 121, 242), sheets.L4, "NVIDIA L4"),
        _device("t4", "NVIDIA T4", 0.32, 16, (8.1, 65, None), sheets.T4, "Tesla T4"),
        _device(
            "v100", "NVIDIA V100 32GB SXM2", 0.9, 32, (15.7, 125, None), sheets.V100,
            "Tesla V100-SXM2-32GB",
        ),
        _device(
            "rtx3090", "NVIDIA GeForce RTX 3090", 0.936, 24, (35.6, 71, None), sheets.AMPERE,
            "NVIDIA GeForce RTX 3090",
        ),
        _device(
            "rtx4090", "NVIDIA GeForce RTX 4090", 1.008, 24, (82.6, 165.2, 330.3), sheets.ADA,
            "NVIDIA GeForce RTX 4090",
        ),
        _device(
            "rtx5090", "NVIDIA GeForce RTX 5090", 1.792, 32, (104.8, 209.5, 419),
            sheets.BLACKWELL, "NVIDIA GeForce RTX 5090",
        ),
        # The sheet's figures are of two dies (3.2768 TB/s, 128 GB, 95.7 and 383 TFLOP/s), and each
        # of them is a device of its own to a program.
        _device(
            "mi250x", "AMD Instinct MI250X, one of two dies", 1.6384, 64, (47.85, 191.5, None),
            sheets.MI250X, "AMD Instinct MI250X",
        ),
        _device(
            "mi300x", "AMD Instinct MI300X", 5.3, 192, (163.4, 1307.4, 2614.9), sheets.MI300X,
            "AMD Instinct MI300X",
        ),
        _device(
            "mi325x", "AMD Instinct MI325X", 6.0, 256, (163.4, 1307.4, 2614.9), sheets.MI325X,
            "AMD Instinct MI325X",
        ),
    )
}  # fmt: skip
"""Name -> device."""


def by_driver(reported: str) -> Device | None:
    """The device that a driver reports by this name; None where it is not in the table.

    Names that begin alike are other devices ("NVIDIA L4", "NVIDIA L40S"), so all of it counts.
    """
    return next((one for one in DEVICES.values() if reported in one.drivers), None)
