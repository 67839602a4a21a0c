"""What the simulations count: intervals that miss on either side, claims, failed gates."""

from collections import Counter

import numpy as np
import pytest

from scripts.simulations.claims import compared, counted
from scripts.simulations.gates import (
    BASE,
    BORDER,
    SUITES,
    Tally,
    families,
    from_folders,
    simulated,
    single,
)
from scripts.simulations.intervals import Columns, covered, intervals, measures
from scripts.simulations.runs import GREEDY, SAMPLED
from specbench.core.quantity import Quantity
from specbench.results.gate.decide import Checked, Outcome
from specbench.results.gate.gate import Gated


def quantity(low, high):
    return Quantity((low + high) / 2, "x", low, high, 0.95, 9, "bootstrap-t over 9 units")


def test_intervals_that_miss_are_counted_by_side():
    found = [quantity(0.9, 1.1), quantity(1.05, 1.2), quantity(0.7, 0.9), quantity(0.8, 1.0)]
    row = covered(found, 1.0)
    assert (row["held"], row["too_high"], row["too_low"], row["experiments"]) == (2, 1, 1, 4)
    assert row["covered"] == 0.5
    # Wilson, of 2 in 4: (2 + z^2 / 2 -+ z sqrt(1 + z^2 / 4)) / (4 + z^2).
    z = 1.959964
    half = z * (1 + z**2 / 4) ** 0.5
    assert row["covered_low"] == pytest.approx((2 + z**2 / 2 - half) / (4 + z**2), abs=1e-4)
    assert row["covered_high"] == pytest.approx((2 + z**2 / 2 + half) / (4 + z**2), abs=1e-4)
    # Widths of 0.2, 0.15, 0.2 and 0.2.
    assert row["width"] == 0.2


def test_every_measure_has_a_column_per_prompt_and_its_value_near_the_truth():
    found = measures(2, 4000, np.random.default_rng(1))
    assert set(found) == {
        *("accept_length", "itl", "speedup"),
        *("accept_length, new / base", "itl, new / base"),
    }
    for columns in found.values():
        assert all(array.shape == (2, 4000) for array in columns.arrays)
        ratio = columns.arrays[0].sum() / columns.arrays[1].sum()
        if len(columns.arrays) == 4:
            ratio /= columns.arrays[2].sum() / columns.arrays[3].sum()
        # Deviations between prompts are of the size of the mean: 1 / sqrt(8000) is 1 %.
        assert ratio == pytest.approx(columns.truth, rel=0.05)


def test_an_experiment_is_a_row():
    top, bottom = np.array([[1.0, 2, 3, 4], [9, 9, 9, 9]]), np.ones((2, 4))
    assert intervals(Columns(1.0, "ms", (top, bottom)), 0).number() == 2.5
    assert intervals(Columns(1.0, "x", (top, bottom, top, bottom)), 1).number() == 1.0


def test_comparisons_of_arms_that_do_not_differ():
    judged = compared(3, 12, np.random.default_rng(2), 0)
    row = counted(judged)
    assert (row["comparisons"], row["measures"]) == (3, 5)
    assert row["claiming"] in range(4)


def checked(what, where, outcome):
    return Checked(what, where, outcome, "")


def test_a_gate_fails_with_its_checks_of_all_or_of_a_suite():
    tally = Tally()
    passed, failed = Outcome.PASS, Outcome.FAIL
    for whole, part in ((passed, failed), (failed, passed), (passed, passed)):
        checks = (
            checked("success", "24 requests", failed),
            checked("speedup", "T=0, all", whole),
            checked("speedup", "T=0, chat", part),
        )
        tally.add(Gated("base", "new", 24, 0, checks, ()))
    rows = {row["by"]: row for row in families(BORDER, tally)}
    assert [rows["all"][name] for name in ("checks", "gates", "failed", "passed")] == [1, 3, 1, 2]
    assert [rows["suite"][name] for name in ("checks", "gates", "failed", "passed")] == [2, 3, 2, 1]
    assert (rows["all"]["bound"], rows["suite"]["bound"]) == (0.001, 0.002)
    over = Counter({row["over"]: row["failed"] for row in single(BORDER, tally)})
    assert over == {"48 prompts": 1, "16 prompts": 1}


def test_runs_of_one_arm_count_the_same_when_they_are_greedy():
    (one,), (other,) = simulated(1, [dict.fromkeys(SUITES, BASE)] * 2, np.random.default_rng(3))
    assert list(one["suite"].unique()) == [suite.name for suite in SUITES]
    for temperature, same in ((GREEDY, True), (SAMPLED, False)):
        steps = [rows.loc[rows["temperature"] == temperature, "steps"] for rows in (one, other)]
        assert steps[0].equals(steps[1]) is same
    assert not one["decode_ns"].equals(other["decode_ns"])


def test_written_runs_are_read_and_gated():
    said = []
    found = from_folders(1, np.random.default_rng(4), said.append)
    assert found["failed"] + found["passed"] + found["not_decided"] == found["gates"] == 1
    # success, 6 verdicts on the output, and 3 measures of all and 3 suites at 2 temperatures.
    assert found["checks"] == 1 + 6 + 24
    assert said == ["1 gates of written runs: 0 failed"]
