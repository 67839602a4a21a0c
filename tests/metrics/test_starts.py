"""Several starts of a server: units are resampled inside starts, and one start changes nothing."""

from dataclasses import replace

import pytest

from specbench.metrics import latency, speedup, throughput
from specbench.metrics.units import label_starts, pairs
from tests.metrics.traces import SEED, timed


def runs(starts, luck):
    """Both arms on 12 items; the arm of start s decodes in ``luck[s]`` seconds."""
    arm, plain = [], []
    for i in range(12):
        start = i % starts
        slow = 1 + 0.01 * (i // starts)
        arm.append(replace(timed(str(i), luck[start] * slow, 10), start=start))
        plain.append(replace(timed(str(i), slow, 10, arm="plain"), start=start))
    return arm, plain


def width(quantity):
    return quantity.high - quantity.low


def figures(arm, plain):
    return {
        "speedup": speedup.speedup(pairs(arm, plain), seed=SEED),
        "speedup_e2e": speedup.speedup_e2e(pairs(arm, plain), seed=SEED),
        "rate": throughput.tokens_per_s_user(arm, seed=SEED),
        "tpot": latency.per_request(arm, latency.tpot, seed=SEED)["mean"],
        "tpot p50": latency.per_request(arm, latency.tpot, seed=SEED)["p50"],
        "overhead": latency.ttft_overhead(pairs(arm, plain), seed=SEED)["mean"],
    }


def test_starts_that_differ_widen_every_interval_of_time():
    arm, plain = runs(3, luck=(0.5, 0.7, 0.9))
    several = figures(arm, plain)
    one = figures([replace(t, start=0) for t in arm], [replace(t, start=0) for t in plain])
    for name in ("speedup", "speedup_e2e", "rate", "tpot"):
        assert width(several[name]) > 1.3 * width(one[name]), name
    for name, found in several.items():
        assert "over 3 starts, then 12 units" in found.method, name
        assert "starts" not in one[name].method
        assert found.number() == one[name].number()
    # The whole range of the starts: no interval over one start can reach it.
    assert several["tpot p50"].low < 60 < 90 < several["tpot p50"].high


def test_totals_name_the_start_of_each_unit():
    arm, plain = runs(2, luck=(0.5, 0.5))
    totals = speedup.unit_totals(pairs(arm, plain), prefill=False)
    assert totals.units[:3] == ("code/0", "code/1", "code/2")
    assert totals.starts == (0, 1) * 6


def test_blocks_of_different_starts_stay_apart():
    arm, plain = runs(2, luck=(0.5, 0.9))
    for t in (*arm, *plain):
        t.concurrency = 2
        t.unit = f"block{int(t.key.item) // 4}" + (":s1" if t.start else "")
    found = speedup.speedup(pairs(arm, plain), seed=SEED)
    assert "over 2 starts, then 6 units" in found.method
    assert found.method.endswith("makespan")


@pytest.mark.parametrize("order", [1, -1])
def test_starts_follow_the_order_of_the_labels(order):
    arm, _ = runs(3, luck=(0.5, 0.5, 0.5))
    kept = arm[::order]
    labels = [t.key.item for t in kept] * 2
    assert label_starts(labels, kept * 2) == [t.start for t in kept]
