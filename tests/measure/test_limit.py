"""What memory allows: measured on a CPU, from a data sheet on a GPU, unknown elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from specbench.core.limit import Reads
from specbench.measure.limit import SMALLEST, find_limit
from specbench.models import rates

READS = {"weights": SMALLEST, "kv_per_token": 500}


@dataclass
class Engine:
    """Says of itself what a test wants."""

    device: str = "cpu"
    facts: dict = field(default_factory=dict)

    def describe(self):
        return self.facts


def test_a_cpu_is_measured(monkeypatch):
    asked = []

    def read_here(size, seconds):
        asked.append(size)
        return 2e9, "timed"

    monkeypatch.setattr(rates, "read_here", read_here)
    found = find_limit(Engine(facts={"reads": READS}))
    assert asked == [SMALLEST]
    assert (found.bandwidth, found.source) == (2e9, "timed")
    assert found.reads == Reads(SMALLEST, 500)


def test_a_gpu_has_a_data_sheet():
    facts = {"reads": READS, "device_name": "NVIDIA H200"}
    found = find_limit(Engine("cuda:0", facts))
    assert (found.bandwidth, found.source) == (4.8e12, "NVIDIA H200 data sheet")


@pytest.mark.parametrize(
    "engine",
    [
        Engine(),  # an engine that does not tell
        Engine(facts={"reads": None}),
        Engine(facts={"reads": {"weights": SMALLEST - 1, "kv_per_token": 1}}),  # fits into caches
        Engine("cuda:0", {"reads": READS, "device_name": "NVIDIA H300"}),
        Engine("cuda:0", {"reads": READS}),
        Engine("server", {"reads": READS}),
    ],
)
def test_nothing_is_guessed(engine):
    assert find_limit(engine) is None
