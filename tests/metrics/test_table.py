import json

import pytest

from specbench.core.quantity import Absence, Missing
from specbench.core.trace import Finish
from specbench.errors import UsageError
from specbench.metrics.definitions import DEFINITIONS
from specbench.metrics.table import measure_cell
from tests.metrics.traces import SEED, timed, trace

LOOP = [1, 2, 3, 4] * 10


def cells(n=12):
    plain = [
        trace(f"{i}", arm="plain", verified=[0] * (20 + i % 3), accepted=[0] * (20 + i % 3))
        for i in range(n)
    ]
    arm = [trace(f"{i}", verified=[3] * 7, accepted=[2] * 6 + [i % 3 + 1]) for i in range(n)]
    return arm, plain


def measure(arm, plain, memory=None):
    return measure_cell(arm, plain, [], memory, seed=SEED)


def test_every_metric_has_a_definition_and_its_unit():
    table = measure(*cells())
    assert set(table) == set(DEFINITIONS)
    for name, row in table.items():
        for stat, quantity in row.items():
            if stat != "detectable":
                assert quantity.unit in DEFINITIONS[name].unit.split(", "), (name, stat)


def test_the_same_seed_gives_the_same_table():
    assert measure(*cells()) == measure(*cells())


def test_the_headline_of_a_cell():
    table = measure(*cells())
    speed, length = table["speedup"]["value"], table["accept_length"]["value"]
    assert 1 < speed.low < speed.number() < speed.high
    assert speed.number() == pytest.approx(length.number())  # every step takes 30 ms here
    assert table["requests"]["paired"].number() == 12


def test_degenerate_items_are_left_out_of_the_second_figure():
    arm, plain = cells()
    plain.append(trace("loop", arm="plain", verified=[0] * 39, accepted=[0] * 39, ids=LOOP))
    arm.append(trace("loop", verified=[3] * 10, accepted=[3] * 9 + [2], ids=LOOP))
    table = measure(arm, plain)
    row = table["accept_length"]
    assert row["nondegenerate"].number() < row["value"].number()
    assert row["nondegenerate"].number() == measure(*cells())["accept_length"]["value"].number()
    assert table["degenerate_share"]["value"].number() == pytest.approx(1 / 13)


def test_without_token_ids_nobody_knows_what_loops():
    arm, plain = cells()
    for t in plain:
        t.output_ids = []
    row = measure(arm, plain)["speedup"]
    assert row["value"].known
    assert row["nondegenerate"].value.absence is Absence.NOT_AVAILABLE


def test_plain_is_its_own_reference_and_a_missing_plain_has_a_reason():
    arm, plain = cells()
    own = measure(plain, plain)
    assert own["accept_length"]["value"].number() == 1.0
    assert "reference" in own["speedup"]["value"].value.reason
    alone = measure(arm, [])
    for name in ("speedup", "speedup_e2e", "ttft_overhead"):
        assert all("no plain arm" in q.value.reason for q in alone[name].values())
    assert alone["accept_length"]["value"].known


def test_h2_a_run_of_failures_is_a_table_without_numbers():
    failed = [trace(str(i), arrivals=[], finish=Finish.ERROR) for i in range(3)]
    table = measure(failed, failed)
    assert table["requests"]["failed"].number() == 3
    rest = [q for name, row in table.items() if name != "requests" for q in row.values()]
    assert all(isinstance(q.value, Missing) for q in rest)
    json.dumps([q.value.reason for q in rest], allow_nan=False)


def test_no_value_or_bound_is_ever_nan():
    one = measure([timed("a", 1, 10)], [timed("a", 2, 10, arm="plain")])
    for table in (one, measure(*cells()), measure(*cells(2))):
        numbers = [
            number
            for row in table.values()
            for q in row.values()
            for number in (q.value, q.low, q.high)
            if isinstance(number, float)
        ]
        json.dumps(numbers, allow_nan=False)


def test_a_broken_trace_stops_the_cell():
    arm, plain = cells()
    arm[3] = trace("3", verified=[2], accepted=[3])
    with pytest.raises(UsageError, match="code/3"):
        measure(arm, plain)


def test_a_draft_longer_than_its_arm_allows_is_refused():
    arm = [trace("a", verified=[5], accepted=[1])]
    measure_cell(arm, [], [], None, seed=SEED, k=5)
    with pytest.raises(UsageError, match=r"code/a .* K 4"):
        measure_cell(arm, [], [], None, seed=SEED, k=4)
