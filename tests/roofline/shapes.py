"""Shapes and devices with round numbers, for sums by hand."""

from __future__ import annotations

from specbench.roofline.cost import Precision
from specbench.roofline.devices import Device
from specbench.roofline.shape import Experts, Layers, Shape, grouped

BF16 = Precision("bfloat16", 16, 16, 16)


def dense(**changed):
    """Two layers of 1000 parameters, 4 heads over 2 for keys, of size 8; H 10, V 50."""
    layers = Layers(2, 1000, grouped(4, 2, 8, changed.pop("window", None)))
    return Shape("dense", 10, 50, (layers,), output_rows=50, **changed)


def routed():
    """One layer with 8 experts of 300 parameters, 2 for each token."""
    layer = Layers(1, 1000, grouped(4, 2, 8), Experts(8, 2, 300))
    return Shape("routed", 10, 50, (layer,), output_rows=50)


def device(bandwidth=1000.0, peak=64000.0, tile=64):
    """By default 64 FLOP/B: one row of a 16-bit matrix is one FLOP/B."""
    peaks = {"bfloat16": peak, "float8": 2 * peak, "float32": peak / 16}
    return Device("toy", "Toy", bandwidth, peaks, 1e6, "made up", tile)
