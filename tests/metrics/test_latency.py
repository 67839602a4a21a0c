"""Golden numbers of cases D1, D2, D9 and H2."""

import pytest

from specbench.core.quantity import Absence
from specbench.core.trace import Finish, Granularity
from specbench.metrics import latency
from specbench.metrics.units import pairs
from tests.metrics.traces import SEED, trace

D1 = [(100, 1), (130, 3), (160, 3), (190, 3)]


def test_d1_per_token_and_per_chunk_are_different_numbers():
    t = trace(arrivals=D1, granularity=Granularity.CHUNK)
    assert latency.ttft(t).number() == 100
    assert [gap for gap, _ in latency.gaps(t)] == [30, 30, 30]
    assert latency.per_gap([t], per_token=False, seed=SEED)["mean"].number() == 30
    assert latency.per_gap([t], per_token=True, seed=SEED)["mean"].number() == pytest.approx(10)
    assert latency.tpot(t).number() == 10
    assert latency.decode_time(t).number() == 90
    assert latency.latency_e2e(t).number() == 190


def test_d1_the_first_chunk_does_not_count_as_decoded():
    t = trace(arrivals=[(100, 3), (130, 3), (160, 3)], granularity=Granularity.CHUNK)
    assert latency.tpot(t).number() == 10.0


def test_d2_n_arrivals_make_n_minus_1_gaps():
    gaps = [gap for gap, _ in latency.gaps(trace(arrivals=D1))]
    assert len(gaps) == 3
    assert max(gaps) == 30


def test_itl_weighs_by_tokens():
    t = trace(arrivals=[(100, 1), (140, 1), (150, 9), (190, 1)])
    found = latency.per_gap([t], per_token=True, seed=SEED)
    assert found["mean"].number() == pytest.approx(90 / 11)
    assert found["p50"].number() == pytest.approx(10 / 9)
    assert found["p90"].number() == 40
    chunks = latency.per_gap([t], per_token=False, seed=SEED)
    assert chunks["p50"].number() == 40


def test_d9_first_request_has_its_own_column():
    times = [1537] + [58] * 49
    traces = [trace(str(i), arrivals=[(t, 1)], start_ms=i * 2000) for i, t in enumerate(times)]
    found = latency.per_request(traces, latency.ttft, seed=SEED)
    assert found["mean"].number() == pytest.approx(87.58)
    assert found["p50"].number() == 58
    assert latency.first_request(traces).number() == 1537
    warm = latency.per_request(traces[1:], latency.ttft, seed=SEED)
    assert warm["mean"].number() == pytest.approx(58.0)


def test_h2_nothing_is_null_and_never_a_sentinel():
    empty = trace("zero", arrivals=[(50, 0)])
    one = trace("one", arrivals=[(100, 1)])
    failed = trace("bad", arrivals=[], finish=Finish.ERROR)
    for t in (empty, one, failed):
        assert latency.tpot(t).value.absence is Absence.NOTHING_TO_MEASURE
    assert latency.latency_e2e(empty).number() == 50
    assert latency.latency_e2e(one).number() == 100
    assert not latency.latency_e2e(failed).known
    assert not latency.ttft(empty).known
    found = latency.per_request([empty, one, failed], latency.tpot, seed=SEED)
    assert not any(quantity.known for quantity in found.values())
    assert not latency.first_request([failed]).known


def test_an_engine_without_a_stream_is_not_available():
    t = trace(arrivals=[(500, 20)], granularity=Granularity.REQUEST)
    for metric in (latency.ttft, latency.tpot, latency.decode_time):
        assert metric(t).value.absence is Absence.NOT_AVAILABLE
    assert latency.latency_e2e(t).number() == 500
    found = latency.per_gap([t], per_token=True, seed=SEED)
    assert found["p99"].value.absence is Absence.NOT_AVAILABLE


def test_ttft_overhead_is_paired():
    arm = [trace(str(i), arrivals=[(100 + 10 * i + i % 3, 1)]) for i in range(9)]
    plain = [trace(str(i), arm="plain", arrivals=[(100 + 10 * i, 1)]) for i in range(9)]
    found = latency.ttft_overhead(pairs(arm, plain[::-1]), seed=SEED)
    assert found["mean"].number() == pytest.approx(1.0)
    assert found["p90"].number() == 2.0
    assert not latency.ttft_overhead([], seed=SEED)["mean"].known


def test_repeats_of_an_item_are_one_unit():
    traces = [trace("a", repeat=r, unit=f"item:a:{r}", arrivals=[(100 + r, 1)]) for r in range(5)]
    found = latency.per_request(traces, latency.ttft, seed=SEED)["mean"]
    assert (found.n, found.low) == (1, None)
    assert "no interval" in found.method
