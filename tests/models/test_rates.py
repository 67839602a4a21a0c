"""Measuring a machine: every repetition counts what it moves, and the median is taken."""

from __future__ import annotations

import pytest
import torch

from specbench.models import rates


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(rates, "CPU_BYTES", 2**18)
    monkeypatch.setattr(rates, "CPU_SIDE", 16)


def timed(monkeypatch, *milliseconds):
    """A clock by which pieces of work take so long, over and over."""
    ticks = [0]
    times = [ms * 1_000_000 for ms in milliseconds]

    def clock():
        reading, place = ticks[0], len(readings) // 2
        if len(readings) % 2:
            ticks[0] += times[place % len(times)]
            reading = ticks[0]
        readings.append(reading)
        return reading

    readings: list[int] = []
    monkeypatch.setattr(rates, "clock_for", lambda device: clock)


def test_rates_are_work_over_time(monkeypatch, small):
    timed(monkeypatch, 2)
    found = rates.measure(torch.device("cpu"), ["float32", "bfloat16"], seconds=0)
    # a copy reads and writes: twice the bytes of a reading of the same time
    assert found.bandwidth == pytest.approx(2 * 2**18 / 0.002)
    assert found.peaks == {
        "float32": pytest.approx(2 * 16**3 / 0.002),
        "bfloat16": pytest.approx(2 * 16**3 / 0.002),
    }
    assert found.tile == 1
    assert found.memory > 2**20


def test_the_median_of_three_where_there_is_no_time(monkeypatch, small):
    timed(monkeypatch, 1, 9, 2)
    found = rates.measure(torch.device("cpu"), ["float32"], seconds=0)
    assert found.peaks["float32"] == pytest.approx(2 * 16**3 / 0.002)


def test_more_repetitions_where_there_is_time(monkeypatch, small):
    readings = []
    timed(monkeypatch, 1)
    clock = rates.clock_for(None)
    monkeypatch.setattr(rates, "clock_for", lambda device: lambda: readings.append(1) or clock())
    rates.measure(torch.device("cpu"), [], seconds=3600)
    assert len(readings) == 2 * 2 * rates.MOST


def test_this_machine(small):
    found = rates.measure(torch.device("cpu"), ["float32"], seconds=0)
    assert found.bandwidth > 0
    assert found.peaks["float32"] > 0
    assert "measured now" in found.source
