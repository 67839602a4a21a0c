"""Share of the limit by hand: 30 ms steps that read weights and contexts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.limit import Limit, Reads
from specbench.core.quantity import Absence
from specbench.core.trace import Tick, TickKind
from specbench.metrics.limit import limit_share
from tests.metrics.traces import MS, trace

LIMIT = Limit(1e9, "made up", Reads(6_000_000, 1_000))
"""6 ms for the weights, 1 µs per token of context."""


def decode(count, ms=30):
    ticks = [Tick(i, TickKind.DECODE, 1, 1, 1, False, 100 * MS * i, 0) for i in range(count)]
    return [replace(tick, end_ns=tick.start_ns + ms * MS) for tick in ticks]


def request(*committed, prompt=100):
    accepted = [n - 1 for n in committed]
    made = trace(verified=[3] * len(committed), accepted=accepted)
    return replace(made, prompt_tokens=prompt)


def test_weights_once_per_tick_and_contexts_once_per_step():
    # contexts of 100, 103 and 104 tokens
    found = limit_share([request(3, 1, 2)], decode(3), LIMIT)
    assert found.number() == pytest.approx((3 * 6 + 0.307) / 90)
    assert (found.unit, found.n) == ("1", 3)


def test_requests_of_a_batch_share_the_weights():
    found = limit_share([request(1, 1), request(1, 1, prompt=1000)], decode(2), LIMIT)
    assert found.number() == pytest.approx((2 * 6 + 0.201 + 2.001) / 60)


def test_prefills_are_not_counted():
    prefill = Tick(9, TickKind.PREFILL, 1, 100, 100, False, 0, 500 * MS)
    ticks = decode(1)
    alone, beside = (limit_share([request(1)], t, LIMIT) for t in (ticks, [prefill, *ticks]))
    assert alone == beside


def test_a_slower_step_is_further_from_the_limit():
    fast, slow = (limit_share([request(1)], decode(1, ms), LIMIT).number() for ms in (10, 40))
    assert fast == pytest.approx(4 * slow)


@pytest.mark.parametrize(("ticks", "limit"), [(decode(2), None), ([], LIMIT)])
def test_where_nothing_is_known_there_is_no_share(ticks, limit):
    found = limit_share([request(1)], ticks, limit)
    assert found.value.absence is Absence.NOT_AVAILABLE
