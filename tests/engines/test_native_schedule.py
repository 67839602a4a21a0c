"""The overlapped schedule in the native engine: what is decoded does not depend on it."""

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.core.trace import Finish, TickKind
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.engines.native import open_engine
from specbench.metrics.identities import tick_violations, violations
from tests.engines.conftest import K, all_arms
from tests.engines.native_runs import observed, requests, run

pytestmark = pytest.mark.usefixtures("one_thread")
TREE = {"tree": [[0], [1], [0, 0], [0, 1], [1, 0]]}
UNTRAINED = {"model": "untrained"}
HEADS = (
    ArmSpec("one", "eagle1", 1, "rejection", drafter_options={**UNTRAINED, "tree": "chain"}),
    ArmSpec("chain", "eagle1", K, "target_match", drafter_options={**UNTRAINED, "tree": "chain"}),
    ArmSpec("tree", "eagle1", 2, "multi_round", drafter_options={**UNTRAINED, **TREE}),
    ArmSpec("heads", "medusa", 2, "typical", drafter_options={**UNTRAINED, **TREE}),
)


@pytest.fixture(scope="module")
def arms(tiny_target):
    return [*all_arms(tiny_target), *HEADS]


@pytest.fixture(scope="module")
def engines(tiny_target, arms):
    """In order and overlapped."""
    settings = {"model": str(tiny_target)}
    opened = [
        open_engine(settings | {"schedule": schedule}, arms)
        for schedule in ("in-order", "overlapped")
    ]
    yield opened
    for engine in opened:
        engine.close()


@pytest.fixture
def passes(monkeypatch):
    """What was queued ahead of its outcome."""
    found = []
    ahead = FeatureDrafter.ahead

    def counted(self, *given):
        found.append(ahead(self, *given))
        return found[-1]

    monkeypatch.setattr(FeatureDrafter, "ahead", counted)
    return found


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_every_arm_decodes_the_same_steps(engines, arms, passes, temperature, concurrency):
    in_order, overlapped = engines
    asked = requests(temperature)
    for arm in arms:
        passes.clear()
        expected = run(in_order, arm.name, asked, concurrency)
        assert not passes
        found = run(overlapped, arm.name, asked, concurrency)
        if arm.name != "tree":  # where nothing is left to draft, a tree is a chain
            assert any(passes) is (arm.name in ("one", "chain"))
        for item, trace in found.items():
            assert violations(trace, k_max=K) == []
            assert observed(trace) == observed(expected[item])
            assert len(expected[item].evidence) == len(trace.output_ids)
            assert len(trace.evidence) == 0


def test_ticks_cover_every_step_and_the_manifest_names_the_schedule(engines):
    _, overlapped = engines
    traces = list(overlapped.run("one", requests(), 3))
    ticks = overlapped.drain_ticks()
    assert tick_violations(ticks) == []
    decode = {tick.index for tick in ticks if tick.kind is TickKind.DECODE}
    assert {index for trace in traces for index in trace.steps.tick} == decode
    assert [engine.describe()["schedule"] for engine in engines] == ["in-order", "overlapped"]


def test_evidence_is_collected_where_it_is_asked_for(tiny_target):
    settings = {"model": str(tiny_target), "schedule": "overlapped", "evidence": True}
    engine = open_engine(settings, [ArmSpec("plain"), *HEADS[:1]])
    for trace in run(engine, "one", requests(0.8), 2).values():
        assert len(trace.evidence) == len(trace.output_ids)
    engine.close()


@pytest.mark.parametrize("arm", ["one", "chain", "tree", "draft_model-rejection", "plain"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_request_with_broken_rows_fails_alone(engines, monkeypatch, arm, temperature):
    in_order, overlapped = engines
    asked = requests(temperature)
    whole = run(in_order, arm, asked, 3)
    target = overlapped._loops[arm]._target
    verify = target.verify

    def spoiled(rows, tree, taps):
        found, states = verify(rows, tree, taps)
        for place, row in enumerate(rows):
            if row.request.key.item == "item-4" and row.step == 2:
                with torch.inference_mode():
                    found.raw[found.index[place, 0]] = float("nan")
        return found, states

    monkeypatch.setattr(target, "verify", spoiled)
    traces = run(overlapped, arm, asked, 3)
    assert traces["item-4"].finish is Finish.ERROR
    assert "target's logits hold a NaN" in traces["item-4"].error
    for item in traces.keys() - {"item-4"}:
        assert observed(traces[item]) == observed(whole[item])


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_draft_with_broken_rows_fails_its_request_alone(engines, monkeypatch, temperature):
    in_order, overlapped = engines
    asked = requests(temperature)
    whole = run(in_order, "one", asked, 3)
    drafter = overlapped._drafters["one"]
    propose = drafter.propose

    def spoiled(rows, budget):
        for row in rows:
            if row.request.key.item == "item-4" and row.step == 2:
                with torch.inference_mode():
                    drafter._carried[row.slab].logits.fill_(float("nan"))
        return propose(rows, budget)

    monkeypatch.setattr(drafter, "propose", spoiled)
    traces = run(overlapped, "one", asked, 3)
    assert traces["item-4"].finish is Finish.ERROR
    assert "draft's logits hold a NaN" in traces["item-4"].error
    for item in traces.keys() - {"item-4"}:
        assert observed(traces[item]) == observed(whole[item])
