"""The predicted speed-up by hand, against the measured one, and where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.quantity import Absence, Missing, Quantity
from specbench.core.step_costs import ArmCosts, StepCost
from specbench.metrics.predicted import predicted_speedup, prediction_error
from specbench.metrics.speedup import speedup, speedup_e2e
from specbench.metrics.step_costs import Round, arm_costs, timed_steps
from specbench.metrics.table import measure_cell
from specbench.metrics.units import pairs
from tests.metrics.timed import decoded
from tests.metrics.traces import SEED, timed, trace

DRAFTED = StepCost(24, 3.0, 1.5, 0.3, 1.1, 0.1)
IDLE = StepCost(9, 0.0, 1.25, 0.2, 1.0, 0.05)
COSTS = ArmCosts(0.0, 1, 20.0, 48, DRAFTED, IDLE)

STEP = {"draft": 6, "verify": 20, "accept": 1, "refill": 1, "rest": 2}
ALONE = {"draft": 1, "verify": 10, "rest": 1}
PLAIN = {"verify": 9, "rest": 1}


def one_pair(**changes):
    """Five steps of 12 tokens: four with a draft, one without."""
    arm = trace("a", verified=[3, 3, 0, 3, 3], accepted=[3, 2, 0, 1, 1], **changes)
    return pairs([arm], [timed("a", 1, 12, arm="plain")])


def predict(joined, costs=COSTS):
    return predicted_speedup(joined, costs, seed=SEED)


def test_tokens_over_the_cost_of_the_steps():
    found = predict(one_pair())
    # 12 tokens for 4 x 1.5 + 1 x 1.25 steps of plain
    assert found["value"].number() == pytest.approx(12 / 7.25)
    assert found["value"].unit == "x"
    numbers = {name: found[name].number() for name in found if name != "value"}
    assert numbers == {
        "accept_length": 12 / 5,
        "drafted": 0.8,
        **{"step": 1.5, "d": 0.3, "v": 1.1, "o": 0.1, "idle": 1.25},
    }
    said = found["value"].method
    assert said.endswith("48 of plain, 24 with 3.0 drafted nodes, 9 without a draft")


def test_prompts_are_resampled_and_costs_are_not():
    arm = [trace(f"{i}", verified=[3, 3], accepted=[i % 4, 1]) for i in range(12)]
    plain = [timed(f"{i}", 1, 4, arm="plain") for i in range(12)]
    value = predict(pairs(arm, plain))["value"]
    # accepted 0, 1, 2, 3 by turns and 1: 2.25 tokens a step
    assert value.number() == pytest.approx(2.25 / 1.5)
    assert 1 / 1.5 < value.low < value.number() < value.high < 3 / 1.5
    assert value.n == 12


def test_steps_that_the_pass_did_not_meet():
    idle_unseen = predict(one_pair(), replace(COSTS, idle=None))
    assert idle_unseen["value"].number() == pytest.approx(12 / 7.0)
    assert "taken as plain's" in idle_unseen["value"].method
    assert idle_unseen["idle"].value.absence is Absence.NOT_AVAILABLE
    assert "taken as plain's" in idle_unseen["idle"].value.reason
    drafts_unseen = predict(one_pair(), replace(COSTS, drafted=None))
    assert "no step with a whole draft" in drafts_unseen["value"].value.reason
    assert list(drafts_unseen) == ["value"]
    never = pairs([trace("a", verified=[0, 0], accepted=[0, 0])], [timed("a", 1, 2, arm="plain")])
    found = predict(never, replace(COSTS, drafted=None))
    assert found["value"].number() == pytest.approx(1 / 1.25)
    assert not found["d"].known


def test_steps_that_neither_the_pass_nor_the_run_met_have_no_cost():
    always = pairs([trace("a", verified=[3, 3], accepted=[3, 2])], [timed("a", 1, 7, arm="plain")])
    found = predict(always, replace(COSTS, idle=None))
    assert found["value"].number() == pytest.approx(7 / 3.0)
    assert "taken as plain's" not in found["value"].method
    assert found["idle"].value.absence is Absence.NOTHING_TO_MEASURE
    # What was timed is known, needed or not.
    assert predict(always)["idle"] == Quantity(1.25, "1", n=9)


def test_prompts_that_are_measured_too_are_named():
    assert (
        "measured too" in predict(one_pair(), replace(COSTS, other_prompts=False))["value"].method
    )
    assert "measured too" not in predict(one_pair())["value"].method


def test_without_spans_the_whole_step_is_enough():
    whole = replace(COSTS, drafted=replace(DRAFTED, d=None, v=None, o=None))
    found = predict(one_pair(), whole)
    assert found["value"].number() == pytest.approx(12 / 7.25)
    assert "spans were off" in found["v"].value.reason


def test_in_a_batch_one_draft_makes_the_step_a_drafted_one():
    def row(item, verified, ticks):
        made = trace(item, verified=verified, accepted=[0] * 3, concurrency=2, unit="block")
        made.steps.tick = ticks
        return made

    arm = [row("a", [3, 0, 0], [1, 2, 3]), row("b", [0, 0, 3], [1, 2, 4])]
    plain = [timed(item, 1, 3, arm="plain", concurrency=2, unit="block") for item in "ab"]
    found = predict(pairs(arm, plain))
    # both rows in tick 1, one in tick 4; nobody drafted in 2 and 3
    assert found["drafted"].number() == pytest.approx(3 / 6)
    assert found["value"].number() == pytest.approx(6 / (3 * 1.5 + 3 * 1.25))


def test_the_error_is_signed_and_keeps_the_reason_of_what_is_missing():
    gone = Quantity(Missing(Absence.NOT_AVAILABLE, "no ticks"), "x")
    seen = {"value": Quantity(1.6, "x"), "e2e": Quantity(2.5, "x"), "none": gone}
    found = prediction_error(Quantity(2.0, "x", n=7), seen)
    assert found["value"].number() == pytest.approx(0.25)
    assert found["e2e"].number() == pytest.approx(-0.2)
    assert (found["value"].unit, found["value"].n) == ("1", 7)
    assert found["none"] == replace(gone, unit="1")
    assert prediction_error(gone, seen)["value"] == replace(gone, unit="1")


def own_phases():
    """Three requests of plain and of an arm, with the ticks of all of them."""
    arm = [
        decoded("a", [(3, 3, STEP), (0, 0, ALONE), (3, 1, STEP)], first_tick=0),
        decoded("b", [(3, 0, STEP), (3, 2, STEP)], first_tick=10, prefill_ms=40),
        decoded("c", [(0, 0, ALONE), (3, 3, STEP)], first_tick=20, prefill_ms=300),
    ]
    tokens = {"a": 7, "b": 4, "c": 5}
    plain = [
        decoded(item, [(0, 0, PLAIN)] * n, arm="plain", first_tick=100 * n, prefill_ms=20)
        for item, n in tokens.items()
    ]
    return arm, plain


def test_with_its_own_phases_a_run_predicts_its_own_decode_time():
    arm, plain = own_phases()
    steps = {
        name: timed_steps(
            [t for t, _ in found], [tick for _, ticks in found for tick in ticks], k=1
        )
        for name, found in (("arm", arm), ("plain", plain))
    }
    costs = arm_costs([Round(steps["arm"], steps["plain"])], 0.0, 1)
    joined = pairs([t for t, _ in arm], [t for t, _ in plain])
    predicted = predict(joined, costs)
    # 16 tokens: plain 16 steps of 10 ms, the arm 5 of 30 ms and 2 of 12 ms
    assert speedup(joined, seed=SEED).number() == pytest.approx(160 / 174)
    assert predicted["value"].number() == pytest.approx(160 / 174)
    assert [predicted[part].number() for part in "dvo"] == pytest.approx([0.7, 2.0, 0.3])
    measured = {"value": speedup(joined, seed=SEED), "e2e": speedup_e2e(joined, seed=SEED)}
    error = prediction_error(predicted["value"], measured)
    assert error["value"].number() == pytest.approx(0, abs=1e-12)
    # Prefills, 440 ms of the arm and 60 of plain, are what is left: (160 + 60) / (174 + 440).
    assert error["e2e"].number() == pytest.approx(160 / 174 / (220 / 614) - 1)


def test_cells_without_costs_say_why():
    arm, plain = own_phases()
    traces, others = [t for t, _ in arm], [t for t, _ in plain]

    def cell(one, two, **more):
        return measure_cell(one, two, [], None, seed=SEED, **more)

    old = cell(traces, others)["predicted_speedup"]["value"]
    assert old.value.absence is Absence.NOT_AVAILABLE
    assert "no steps were timed" in old.value.reason
    assert "no steps were timed" in cell(traces, others)["prediction_error"]["e2e"].value.reason
    assert (
        "reference" in cell(others, others, costs=COSTS)["predicted_speedup"]["value"].value.reason
    )
    assert "no plain" in cell(traces, [], costs=COSTS)["prediction_error"]["value"].value.reason
    assert "both arms" in predict([])["value"].value.reason
    assert cell(traces, others, costs=COSTS)["prediction_error"]["value"].known
