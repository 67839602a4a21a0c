"""Starts of servers: what each decodes, in which order, and what a resumed run still starts."""

from __future__ import annotations

import pytest

from specbench.core.request import Sampling
from specbench.measure.plan import plan_units
from specbench.measure.stages import open_stages, plan_stages, server_starts
from tests.measure.fakes import conditions, prompt

ARMS = ["plain", "ngram"]
PROMPTS = [prompt(f"p{i}") for i in range(5)]
SETTINGS = conditions(samplings=(Sampling(0.0), Sampling(0.7)), repeats=2, concurrency=(1, 2))


@pytest.mark.parametrize("settings", [conditions(), SETTINGS])
def test_one_start_of_arms_that_live_together_is_the_plan_of_a_run_without_servers(settings):
    selection = {"x": PROMPTS, "y": [prompt("q0", turns=2), prompt("q1")]}
    (stage,) = plan_stages(selection, settings, ARMS)
    assert list(stage.units) == plan_units(selection, settings, ARMS)
    assert [unit.name for unit in stage.units if ":s" in unit.name] == []
    assert (stage.index, stage.together, stage.arms) == (0, True, ("plain", "ngram"))


def test_names_of_a_first_start_are_part_of_the_file_format():
    (stage,) = plan_stages({"x": PROMPTS[:2]}, conditions(), ARMS)
    assert [unit.name for unit in stage.units] == ["x:T0.0:r0:c1:p0", "x:T0.0:r0:c1:p1"]
    first, second = plan_stages({"x": PROMPTS[:2]}, conditions(concurrency=(4,)), ARMS, 2)
    assert [unit.name for unit in first.units] == ["x:T0.0:r0:c4:block0"]
    assert [unit.name for unit in second.units] == ["x:T0.0:r0:c4:block0:s1"]


@pytest.mark.parametrize("together", [True, False])
def test_starts_share_the_prompts_and_each_holds_every_cell(together):
    selection = {"x": PROMPTS, "y": PROMPTS[:3]}
    stages = plan_stages(selection, SETTINGS, ARMS, 3, together)
    records = [record for stage in stages for record in stage.records()]
    assert len(records) == len(set(records)) == (5 + 3) * 2 * 2 * 2 * 2
    for stage in stages:
        cells = {(u.suite, u.sampling.temperature, u.repeat, u.concurrency) for u in stage.units}
        assert len(cells) == 2 * 2 * 2 * 2
        assert {unit.start for unit in stage.units} == {stage.index}
    items = [{record.key.item for record in stage.records()} for stage in stages]
    assert items == [{"p0", "p3"}, {"p1", "p4"}, {"p2"}]
    names = [unit.name for stage in stages for unit in stage.units]
    assert len(names) == len(set(names))


def test_arms_apart_run_a_b_b_a_and_are_never_interleaved():
    stages = plan_stages({"x": PROMPTS}, conditions(), ["plain", "a", "b"], 3, together=False)
    assert [stage.arms for stage in stages] == [
        ("plain", "a", "b"),
        ("b", "a", "plain"),
        ("plain", "a", "b"),
    ]
    for stage in stages:
        assert {unit.kind for unit in stage.units} == {"server"}
        assert all(unit.orders == (stage.arms,) for unit in stage.units)
        assert all(unit.name.endswith(f":s{stage.index}") for unit in stage.units)


@pytest.mark.parametrize(
    ("history", "arms", "second"),
    [
        ("plain", ["plain", "a", "b"], ("plain", "b", "a")),
        ("own", ["plain", "a", "b"], ("b", "a", "plain")),
        ("plain", ["a", "b"], ("b", "a")),
    ],
)
def test_plain_leads_where_later_turns_show_its_answers(history, arms, second):
    prompts = [prompt("p", turns=2), *PROMPTS]
    stages = plan_stages({"x": prompts}, conditions(history=history), arms, 2, together=False)
    assert [stage.arms for stage in stages] == [tuple(arms), second]


def test_a_start_without_a_prompt_is_refused():
    with pytest.raises(ValueError, match="suite y has 1 prompts for 2 starts"):
        plan_stages({"x": PROMPTS, "y": PROMPTS[:1]}, conditions(), ARMS, 2)


def test_only_what_is_left_is_started():
    for together, wanted in ((True, 4), (False, 3)):
        stages = plan_stages({"x": PROMPTS}, conditions(), ARMS, 3, together)
        assert server_starts(stages, ARMS) == 6
        assert server_starts(stages, ["ngram"]) == 3
        done = {*stages[0].records(), *stages[1].records("plain")}
        assert [stage.index for stage in open_stages(stages, done)] == [1, 2]
        # Arms that live together share a machine, so those that are done start as well.
        assert server_starts(stages, ARMS, done) == wanted
