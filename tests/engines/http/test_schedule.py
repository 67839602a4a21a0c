"""Due times, and how many requests are in flight."""

from __future__ import annotations

import asyncio
import math
from statistics import fmean

import pytest

from specbench.engines.http.options import Arrival
from specbench.engines.http.schedule import due_times, send_all
from specbench.errors import UsageError


def test_closed_loops_have_no_due_times_and_a_burst_is_due_at_once():
    assert due_times(Arrival("closed"), 3, "s") is None
    assert due_times(Arrival("burst"), 3, "s") == [0, 0, 0]


def test_poisson_gaps_are_exponential_at_the_rate():
    times = due_times(Arrival("poisson", 50.0), 20_000, "s")
    gaps = [b - a for a, b in zip([0, *times], times, strict=False)]
    # mean 20 ms, its standard error 20 / sqrt(20000) = 0.14 ms; a share e^-1 lies above the mean
    assert abs(fmean(gaps) / 1e6 - 20) < 5 * 0.1415
    above = fmean(gap > 20e6 for gap in gaps)
    assert abs(above - math.exp(-1)) < 5 * math.sqrt(0.233 / 20_000)
    assert times == sorted(times)


def test_equal_seeds_give_equal_load():
    arrival = Arrival("poisson", 5.0)
    assert due_times(arrival, 9, "a") == due_times(arrival, 9, "a")
    assert due_times(arrival, 9, "a") != due_times(arrival, 9, "b")


@pytest.mark.parametrize("arrival", [Arrival("poisson"), Arrival("poisson", 0.0), Arrival("daily")])
def test_arrivals_that_mean_nothing(arrival):
    with pytest.raises(UsageError):
        due_times(arrival, 3, "s")


def play(due, places, count=6):
    """(item, due moment) in order of sending, and the most in flight."""
    sent, state = [], {"now": 0, "most": 0}

    async def send(item, moment):
        sent.append((item, moment))
        state["now"] += 1
        state["most"] = max(state["most"], state["now"])
        for _ in range(3):
            await asyncio.sleep(0)
        state["now"] -= 1

    asyncio.run(send_all(range(count), due, places, send, lambda: 1_000))
    return sent, state["most"]


def test_places_are_filled_and_never_exceeded():
    sent, most = play(None, 2)
    assert sent == [(item, None) for item in range(6)]
    assert most == 2


def test_in_an_open_loop_each_request_has_its_moment_though_it_waits():
    sent, most = play([0] * 6, 2)
    assert sent == [(item, 1_000) for item in range(6)]
    assert most == 2


def test_an_error_of_ours_is_not_swallowed():
    async def send(item, moment):
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        asyncio.run(send_all([1], None, 1, send, lambda: 0))
