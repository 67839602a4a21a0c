"""What a study may claim: paired by prompt, adjusted for all it looks at, never inside noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.core.manifest import ArmFactors
from specbench.core.quantity import Quantity, nothing
from specbench.core.trace import Granularity, Tally
from specbench.results.contrasts import (
    Contrast,
    claimed,
    contrasts,
    families,
    length_difference,
    step_totals,
)
from specbench.results.study_sentences import NO_DIFFERENCE, setting_sentences
from tests.metrics.traces import trace
from tests.results.records import IDENTITY, MANIFEST

KEY = "target.quant"


def answers(accepted, arm="self", **fields):
    """One request per prompt; of each its accepted tokens by step."""
    return [
        trace(str(item), arm=arm, verified=[3] * len(steps), accepted=steps, **fields)
        for item, steps in enumerate(accepted)
    ]


def arm(name="self", quant="none", **options):
    given = {"model": "m", **({} if quant == "none" else {"quant": quant.partition("-")[0]})}
    return ArmFactors(
        name, "draft_model", 3, "rejection", "native", quant=quant, drafter_options=given | options
    )


ALONE = (arm(),)


def run(quant="none", arms=ALONE):
    plain = ArmFactors("plain", "none", 0, "none", "native")
    return replace(MANIFEST, identity=replace(IDENTITY, quant=quant), arms=(plain, *arms))


def test_totals_are_paired_by_prompt():
    one = answers([[3, 1], [0], [2]])
    other = answers([[1, 1, 1], [2]])
    # The third prompt has no partner. Committed tokens are accepted ones and one more per step.
    assert step_totals(one, other) == ([6.0, 1.0], [2.0, 1.0], [6.0, 3.0], [3.0, 1.0])
    assert length_difference(one, other, 1).number() == pytest.approx(7 / 3 - 9 / 4)


def test_turns_and_repeats_of_a_prompt_are_one_unit():
    one = answers([[3]]) + answers([[1]], turn=1)
    other = answers([[2, 0]]) + answers([[1]], turn=1)
    assert step_totals(one, other) == ([6.0], [2.0], [6.0], [3.0])


def test_totals_of_a_server_count_where_it_tells_them():
    def told(steps, committed):
        found = trace("0", granularity=Granularity.REQUEST, arrivals=[(100, 5)])
        found.tally = Tally("server", steps=steps, committed=committed, verified=9, accepted=3)
        return found

    assert step_totals([told(4, 12)], [told(6, 12)]) == ([12.0], [4.0], [12.0], [6.0])
    silent = trace("0", granularity=Granularity.REQUEST, arrivals=[(100, 5)])
    assert "does not tell" in str(length_difference([silent], [told(6, 12)], 1).value)
    assert "finished by both" in str(length_difference([], [silent], 1).value)


def test_arms_that_differ_in_the_quantisation_of_their_draft_are_a_family():
    arms = [arm(), arm("self-int8", "int8"), arm("deep", layers=3), arm("twin")]
    names = [[one.name for one in family] for family in families(run(arms=arms).arms)]
    assert names == [["self", "self-int8"], ["deep"], ["twin"]]


def ladder(*levels):
    """Runs with the given accept rates in percent: of each two prompts with 1000 steps."""
    values = ("none", "int8", "int4")
    cells = {
        (value, "self"): [
            trace(str(item), arm="self", verified=[1] * 1000, accepted=[1] * n + [0] * (1000 - n))
            for item, n in enumerate(round(10 * rate) for rate in rates)
        ]
        for value, rates in zip(values, levels, strict=True)
    }
    return contrasts({value: run(value) for value in values}, KEY, cells)


def test_h9_a_precision_ladder_inside_noise_is_no_ranking():
    found = ladder((8.6, 8.1), (7.9, 8.9), (8.5, 9.2))
    assert claimed(found) == [False, False]
    (line,) = setting_sentences(found, "At temperature 0", KEY)
    assert line == (
        "At temperature 0, self: no difference detected at this n: quantising the target to int8 "
        "(2 prompts, too few to tell), quantising the target to int4 (2 prompts, too few to tell)."
    )


def noisy(shift, seed=3, prompts=24):
    """Accept lengths around 3 and, on the same prompts, around 3 - shift."""
    rng = np.random.default_rng(seed)
    base = rng.uniform(1.5, 2.5, prompts)
    other = base - shift + rng.normal(0, 0.05, prompts)
    return [
        answers([[round(100 * one)] + [0] * 99 for one in lengths]) for lengths in (base, other)
    ]


def compared(base, other):
    cells = {("none", "self"): base, ("int8", "self"): other}
    return contrasts({"none": run(), "int8": run("int8")}, KEY, cells)


def test_a_difference_beyond_the_noise_is_claimed_with_its_interval():
    base, other = noisy(0.3)
    (found,) = compared(base, other)
    assert claimed([found]) == [True]
    assert found.difference.number() == pytest.approx(-0.3, abs=0.05)
    (line,) = setting_sentences([found], "At temperature 0", KEY)
    low, high = -found.difference.high, -found.difference.low
    size = f"{-found.difference.number():.3f} [{low:.3f}, {high:.3f}]"
    assert line == (
        f"At temperature 0, self: quantising the target to int8 costs {size} of accept length."
    )
    (gain,) = compared(other, base)
    assert "quantising the target to int8 adds 0." in setting_sentences([gain], "x", KEY)[0]


def test_noise_is_not_claimed_and_what_could_have_been_seen_is_said():
    (found,) = compared(*noisy(0.0))
    assert claimed([found]) == [False]
    assert found.detectable.number() == pytest.approx(2.8 * 0.05 / np.sqrt(24), rel=0.35)
    (line,) = setting_sentences([found], "At temperature 0", KEY)
    seen = f"(24 prompts, smallest detectable {found.detectable.number():.3f})"
    assert line.endswith(f"{NO_DIFFERENCE}: quantising the target to int8 {seen}.")


def test_equal_figures_are_told_as_equal():
    base, _ = noisy(0.0)
    (found,) = compared(base, base)
    assert found.p == 1.0
    assert "(equal on all 24 prompts)" in setting_sentences([found], "x", KEY)[0]


def test_draft_target_and_both_are_held_against_neither():
    arms = (arm(), arm("self-int8", "int8"), arm("self-int4", "int4-g32"))
    manifests = {value: run(value, arms) for value in ("none", "int8")}
    base, worse = noisy(0.3)
    cells = {
        (value, one.name): base if (value, one.name) == ("none", "self") else worse
        for value in manifests
        for one in arms
    }
    found = contrasts(manifests, KEY, cells)
    what = [(one.target, one.draft) for one in found]
    assert what == [
        ("", "int8"),
        ("", "int4-g32"),
        ("int8", ""),
        ("int8", "int8"),
        ("int8", "int4-g32"),
    ]
    (line,) = setting_sentences(found, "At temperature 1", KEY)
    for words in (
        "quantising the draft to int8 costs",
        "quantising the draft to int4-g32 costs",
        "quantising the target to int8 costs",
        "quantising both to int8 costs",
        "quantising the target to int8 and the draft to int4-g32 costs",
    ):
        assert words in line


def test_another_key_is_named_with_its_value():
    base, worse = noisy(0.3)
    manifests = {"float32": run(arms=(arm(), arm("self-int8", "int8"))), "bfloat16": run()}
    cells = {("float32", "self"): base, ("bfloat16", "self"): worse, ("float32", "self-int8"): base}
    manifests["bfloat16"] = manifests["float32"]
    (line,) = setting_sentences(contrasts(manifests, "target.dtype", cells), "x", "target.dtype")
    assert "target.dtype = bfloat16 costs 0." in line
    assert "the draft in int8 (equal on all 24 prompts)" in line
    assert "target.dtype = bfloat16 with the draft in int8" in line


def contrast(p, low=-2.0, high=-1.0):
    difference = Quantity(-1.5, "tokens/step", low, high, 0.95, 20)
    return Contrast("int8", "", "self", difference, p, nothing("x", "tokens/step"))


def test_holm_decides_over_all_contrasts_of_a_setting():
    # 0.04 alone would pass; with 0.03 beside it the smaller must be below 0.025.
    assert claimed([contrast(0.04)]) == [True]
    assert claimed([contrast(0.03), contrast(0.04)]) == [False, False]
    assert claimed([contrast(0.02), contrast(0.04)]) == [True, True]
    (line,) = setting_sentences([contrast(0.03), contrast(0.04)], "x", KEY)
    assert "-1.500 [-2.000, -1.000], not beyond chance among 2 comparisons" in line
    assert claimed([contrast(0.001, low=-2.0, high=0.1)]) == [False]
    assert claimed([contrast(0.001, low=None, high=None)]) == [False]
