"""Golden numbers of cases D12 and D13; pairing; blocks."""

from dataclasses import replace

import pytest

from specbench.core.trace import Granularity
from specbench.metrics import speedup, throughput
from specbench.metrics.units import Pair, pairs
from tests.metrics.traces import SEED, timed, trace


def paired(rows):
    """Pairs from (plain seconds, plain tokens, arm seconds, arm tokens)."""
    plain = [timed(str(i), row[0], row[1], arm="plain") for i, row in enumerate(rows)]
    arm = [timed(str(i), row[2], row[3]) for i, row in enumerate(rows)]
    return pairs(arm, plain)


def test_d12_both_arms_are_counted_by_the_ids():
    plain = trace("a", arm="plain", arrivals=[(100, 1), (10100, 94)], ids=range(101))
    arm = trace("a", arrivals=[(100, 1), (5100, 105)], ids=range(101))
    assert speedup.speedup(pairs([arm], [plain]), seed=SEED).number() == 2.0


def test_d13_total_time_not_the_mean_of_ratios():
    joined = paired([(1.0, 100, 1 / ratio, 100) for ratio in (1.75, 1.49, 0.87, 0.55)])
    found = speedup.speedup(joined, seed=SEED)
    assert found.number() == pytest.approx(0.950, abs=5e-4)
    assert found.low < 0.950 < found.high
    assert found.n == 4
    assert found.method.endswith("decode time")


def test_d13_unequal_lengths_are_compared_per_token():
    joined = paired([(14.329, 1000, 15.325, 947)])
    found = speedup.speedup(joined, seed=SEED)
    assert found.number() == pytest.approx(0.885, abs=6e-4)
    assert found.low is None
    assert "no interval" in found.method


def test_e2e_includes_the_prefill():
    found = speedup.speedup_e2e(paired([(0.9, 9, 0.4, 9)]), seed=SEED)
    assert found.number() == pytest.approx(1.0 / 0.5)


def test_pairs_join_on_keys_and_drop_what_one_arm_lacks():
    plain = [timed(i, 1, 10, arm="plain") for i in "dcba"]
    arm = [timed("a", 1, 10), timed("b", 1, 10, finish="error"), timed("x", 1, 10)]
    assert [pair.arm.key.item for pair in pairs(arm, plain)] == ["a"]
    assert pairs([timed("a", 1, 10, concurrency=4)], plain) == []
    assert pairs([timed("a", 1, 10, repeat=1)], plain) == []


def test_blocks_compare_makespans():
    def block(name, seconds, arm, offset):
        return [
            timed(f"{name}{i}", seconds, 9, arm=arm, concurrency=2, unit=name, start_ms=offset)
            for i in range(2)
        ]

    plain = block("one", 1.9, "plain", 0) + block("two", 1.9, "plain", 9000)
    arm = block("one", 0.9, "mtp", 4000) + block("two", 0.9, "mtp", 14000)
    totals = speedup.unit_totals(pairs(arm, plain), prefill=False)
    assert totals.units == ("one", "two")
    assert totals.time_plain == pytest.approx((2.0, 2.0))
    assert totals.time_arm == pytest.approx((1.0, 1.0))
    assert totals.tokens_arm == (20, 20)
    assert totals.basis == "makespan"
    assert speedup.speedup(pairs(arm, plain), seed=SEED).number() == pytest.approx(2.0)


def open_loop(arm, seconds, n=100):
    """One request every 250 ms, sent when due: prefill 100 ms, then ``seconds`` for 10 tokens."""
    made = [
        timed(str(i), seconds, 10, arm=arm, concurrency=64, unit="block0", start_ms=250 * i)
        for i in range(n)
    ]
    return [replace(t, sent_ns=t.start_ns) for t in made]


def test_open_arrivals_do_not_hide_a_speedup_behind_their_rate():
    joined = pairs(open_loop("mtp", 0.5), open_loop("plain", 1.0))
    # The makespans are 24.75 + 1.1 s and 24.75 + 0.6 s: 1.02, and it is the arrivals that say so.
    found, whole = speedup.speedup(joined, seed=SEED), speedup.speedup_e2e(joined, seed=SEED)
    assert found.number() == pytest.approx(2.0)
    assert whole.number() == pytest.approx(1.1 / 0.6)
    assert found.method.endswith("decode time of requests in an open loop")
    assert whole.method.endswith("request time of requests in an open loop")
    assert found.n == 100
    totals = speedup.unit_totals(joined, prefill=False)
    assert totals.tokens_arm[:2] == (10, 10)
    rate = throughput.tokens_per_s_device([pair.arm for pair in joined])
    assert rate.number() == pytest.approx(1100 / 25.35)


def test_whole_requests_in_an_open_loop_have_no_decode_time():
    joined = [
        Pair(
            *(
                replace(t, granularity=Granularity.REQUEST)
                for t in (*open_loop("mtp", 0.5, 1), *open_loop("plain", 1.0, 1))
            )
        )
    ]
    assert not speedup.speedup(joined, seed=SEED).known
    assert speedup.speedup_e2e(joined, seed=SEED).number() == pytest.approx(1.1 / 0.6)


def test_whole_requests_have_only_an_end_to_end_speedup():
    plain = [trace("a", arm="plain", arrivals=[(800, 9)], granularity=Granularity.REQUEST)]
    arm = [trace("a", arrivals=[(400, 9)], granularity=Granularity.REQUEST)]
    assert not speedup.speedup(pairs(arm, plain), seed=SEED).known
    assert not speedup.detectable(pairs(arm, plain), seed=SEED).known
    assert speedup.speedup_e2e(pairs(arm, plain), seed=SEED).number() == 2.0


def test_what_this_run_could_have_shown():
    few = paired([(1 + 0.1 * (i % 3), 50, 0.6 + 0.05 * (i % 5), 50) for i in range(10)])
    many = paired([(1 + 0.1 * (i % 3), 50, 0.6 + 0.05 * (i % 5), 50) for i in range(90)])
    small = speedup.detectable(many, seed=SEED).number()
    large = speedup.detectable(few, seed=SEED).number()
    assert 0 < small < large < 0.5
    assert large / small == pytest.approx(3, rel=0.25)
