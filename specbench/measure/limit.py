"""How fast the weights of a run's target can be read, measured or from a data sheet."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.core.limit import Limit, Reads
from specbench.engines.protocol import Engine
from specbench.roofline.devices import by_driver

SMALLEST = 2**26
"""Bytes of weights below which caches hold them and memory is no limit."""

SECONDS = 0.8
"""Allowed for measuring, once, before the run."""


def find_limit(engine: Engine) -> Limit | None:
    """What memory allows the engine's target; None where that would be a guess.

    On a CPU the product of a matrix as large as the weights and a vector is timed; of a GPU the
    data sheet counts, where it is in the table.
    """
    facts = engine.describe()
    reads = _reads(facts.get("reads"))
    if reads is None or reads.weights < SMALLEST:
        return None
    if engine.device == "cpu":
        from specbench.models.rates import read_here

        return Limit(*read_here(reads.weights, SECONDS), reads)
    device = by_driver(str(facts.get("device_name")))
    return None if device is None else Limit(device.bandwidth, device.source, reads)


def _reads(found: object) -> Reads | None:
    if not isinstance(found, Mapping):
        return None
    return Reads(int(found["weights"]), int(found["kv_per_token"]))
