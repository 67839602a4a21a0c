import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.core.trace import Granularity
from specbench.metrics import throughput
from tests.metrics.traces import SEED, trace


def test_rates_of_one_request():
    t = trace(arrivals=[(100, 1), (130, 3), (160, 3), (190, 3)])
    assert throughput.tokens_per_s_user([t], seed=SEED).number() == pytest.approx(100)
    assert throughput.tokens_per_s_e2e([t], seed=SEED).number() == pytest.approx(10 / 0.19)
    assert throughput.tokens_per_s_device([t]).number() == pytest.approx(10 / 0.19)


def test_d1_peak_counts_tokens_not_chunks():
    t = trace(arrivals=[(100, 1), (130, 3), (160, 3), (190, 3)])
    assert throughput.tokens_per_s_peak([t]).number() == 10


def test_device_rate_is_over_the_makespan_without_pauses():
    together = [
        trace("a", arrivals=[(500, 5), (1000, 5)], concurrency=2),
        trace("b", arrivals=[(500, 5), (1000, 5)], start_ms=200, concurrency=2),
    ]
    assert throughput.tokens_per_s_device(together).number() == pytest.approx(20 / 1.2)
    other_arm_between = [
        trace("a", arrivals=[(1000, 10)]),
        trace("b", arrivals=[(1000, 10)], start_ms=5000),
    ]
    assert throughput.tokens_per_s_device(other_arm_between).number() == pytest.approx(10)
    assert throughput.tokens_by_second(other_arm_between) == [10, 10]


def test_without_requests_or_stream_there_is_no_rate():
    assert not throughput.tokens_per_s_device([]).known
    assert not throughput.tokens_per_s_peak([]).known
    assert not throughput.tokens_per_s_e2e([], seed=SEED).known
    whole = [trace(arrivals=[(500, 9)], granularity=Granularity.REQUEST)]
    assert not throughput.tokens_per_s_user(whole, seed=SEED).known
    assert throughput.tokens_per_s_e2e(whole, seed=SEED).number() == pytest.approx(18)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5000),
            st.lists(st.tuples(st.integers(0, 900), st.integers(1, 9)), min_size=1, max_size=8),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_peak_is_never_below_the_mean_and_no_token_is_lost(drawn):
    traces = []
    for index, (start, gaps) in enumerate(drawn):
        at, arrivals = 1, []
        for gap, tokens in gaps:
            at += gap
            arrivals.append((at, tokens))
        traces.append(trace(str(index), arrivals=arrivals, start_ms=start))
    seconds = throughput.tokens_by_second(traces)
    total = sum(tokens for _, gaps in drawn for _, tokens in gaps)
    assert sum(seconds) == total
    assert throughput.tokens_per_s_peak(traces).number() * len(seconds) >= total
