"""A small load with faults of every kind: the accounts of the load test, without its clocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from scripts.load_test import FAULTS, Load, account, judge, measure

SMALL = Load(requests=40, concurrency=16, share=0.1, tokens=6, first_s=0.02, gap_s=0.005)


@pytest.mark.parametrize("rate", [None, 200.0], ids=["closed", "poisson"])
def test_every_request_is_accounted_for_once(rate):
    load = replace(SMALL, rate=rate)
    result, traces, log = measure(load)
    assert account(load, traces, log) == []
    judge(result, traces, log)
    assert result.ok == 20
    assert result.failed == dict.fromkeys(FAULTS, 4)


def test_faults_are_a_fixed_share_of_each_kind():
    faults = Load(requests=500).faults
    assert Counter(faults) == {"": 375, **dict.fromkeys(FAULTS, 25)}
    assert faults == Load(requests=500).faults


def test_lost_doubled_and_mistaken_requests_are_told():
    load = replace(SMALL, requests=3, share=0.0, concurrency=1)
    _, traces, log = measure(load)
    lost = account(load, traces[:2], log)
    assert len(lost) == 1
    assert "missing" in lost[0]
    doubled = account(load, [*traces, traces[0]], log)
    assert "too many" in doubled[0]
    short = account(replace(load, tokens=7), traces, log)
    assert len(short) == 3
    assert all("a whole answer became" in line for line in short)
