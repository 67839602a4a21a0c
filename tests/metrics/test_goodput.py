"""Objectives on hand-made requests: who keeps them, and how many per second do."""

from __future__ import annotations

import pytest

from specbench.core.trace import Finish, Granularity
from specbench.metrics.goodput import Objective, attainment, goodput, itl_tail
from tests.metrics.traces import trace

FAST = trace("a", arrivals=[(100, 1), (130, 3), (160, 3)])
"""TTFT 100 ms; six tokens in 60 ms, 10 ms each; ends after 160 ms."""
SLOW = trace("b", arrivals=[(400, 1), (430, 1), (530, 1)])
"""TTFT 400 ms; two tokens in 130 ms, gaps of 30 and 100 ms."""
FAILED = trace("c", arrivals=[], finish=Finish.ERROR)
SKIPPED = trace("d", arrivals=[], finish=Finish.SKIPPED)


@pytest.mark.parametrize(
    ("name", "limit", "kept"),
    [
        ("ttft", 100, [True, False]),
        ("ttft", 99.9, [False, False]),
        ("tpot", 10, [True, False]),
        ("tpot", 65, [True, True]),
        ("itl", 99, [True, False]),
        ("itl", 100, [True, True]),
        ("e2e", 160, [True, False]),
    ],
)
def test_an_objective_bounds_one_latency_of_a_request(name, limit, kept):
    assert [Objective(name, limit).met(one) for one in (FAST, SLOW)] == kept


def test_itl_is_what_95_percent_of_a_requests_tokens_wait_at_most():
    # 20 tokens at 10 ms and one at 50: the 95 % are reached before it.
    rows = [(100, 1), *((100 + 10 * n, 1) for n in range(1, 21)), (350, 1)]
    assert itl_tail(trace(arrivals=rows)).number() == pytest.approx(10)
    assert itl_tail(trace(arrivals=rows[-4:])).number() == pytest.approx(50)


def test_failed_requests_keep_nothing_and_skipped_ones_were_not_sent():
    found = attainment([FAST, SLOW, FAILED, SKIPPED], [Objective("ttft", 200)])
    assert found.number() == pytest.approx(1 / 3)
    assert found.n == 3
    assert found.low < 1 / 3 < found.high


def test_goodput_is_over_the_time_of_all_requests():
    # Both in flight from 0 to 530 ms; one of them is in time.
    assert goodput([FAST, SLOW], [Objective("ttft", 200)]).number() == pytest.approx(1 / 0.53)
    assert goodput([FAST, SLOW], [Objective("ttft", 200), Objective("tpot", 5)]).number() == 0
    assert not goodput([FAILED], [Objective("ttft", 200)]).known


def test_an_answer_of_one_token_has_no_gap_to_bound():
    short = trace(arrivals=[(100, 1)])
    assert Objective("itl", 1).met(short)
    assert not Objective("ttft", 1).met(short)


def test_whole_requests_tell_their_end_alone():
    whole = trace(arrivals=[(160, 7)], granularity=Granularity.REQUEST)
    assert not attainment([whole], [Objective("itl", 50)]).known
    assert attainment([whole], [Objective("e2e", 200)]).number() == 1
