"""Steps of real arms, timed before a run: their phases, their widths, and nothing learnt."""

from dataclasses import replace

import pytest

from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.request import Sampling
from specbench.engines.native import open_engine
from specbench.measure.step_times import time_steps
from tests.engines.conftest import K
from tests.engines.native_runs import observed, requests
from tests.measure.fakes import conditions, prompt

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPTS = {"suite": [prompt(name) for name in ("a b", "c d e", "f g")]}


def test_steps_of_chains_trees_and_lookups(tiny_target):
    tree = {"model": str(tiny_target), "tree": "2x2x2"}
    arms = [
        ArmSpec(PLAIN),
        ArmSpec("early", "layer_skip", K, "target_match", drafter_options={"layers": 1}),
        ArmSpec("tree", "draft_model", K, "target_match", drafter_options=tree),
        ArmSpec("suffix", "suffix", K, "target_match", drafter_options={"scope": "answers"}),
    ]
    engine, fresh = (open_engine({"model": str(tiny_target)}, arms) for _ in range(2))
    settings = conditions(samplings=(Sampling(0.9),), max_new_tokens=24, concurrency=(2,))
    found = time_steps(engine, settings, {arm.name: arm.k for arm in arms}, PROMPTS)
    assert set(found.arms) == {"early", "tree", "suffix"}
    for name, width in (("early", 3), ("tree", 14)):
        (costs,) = found.arms[name]
        cost = costs.drafted
        assert cost.verified == width
        assert min(costs.t1_ms, cost.d, cost.v) > 0
        assert cost.d + cost.v + cost.o == pytest.approx(cost.step)
    assert all(costs.idle or costs.drafted for costs in found.arms["suffix"])
    assert engine.drain_ticks() == []
    asked = [replace(one, limits=replace(one.limits, max_new_tokens=20)) for one in requests()]
    for arm in ("tree", "suffix"):
        seen = [[observed(trace) for trace in made.run(arm, asked, 1)] for made in (engine, fresh)]
        assert seen[0] == seen[1]
