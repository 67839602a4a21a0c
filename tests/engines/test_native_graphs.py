"""Captured forwards in the native engine: the same steps, and ticks that say how they ran."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import TickKind
from specbench.engines.native import open_engine
from specbench.errors import PrerequisiteError
from specbench.metrics.phases import graph_share
from specbench.models import opened
from specbench.models.graphs.captured import Graphs
from tests.engines.conftest import K, all_arms
from tests.engines.native_runs import by_item, observed, requests, run
from tests.models.recorded import TracedRecorder

pytestmark = pytest.mark.usefixtures("one_thread")
UNTRAINED = {"model": "untrained"}
TREE = {"tree": [[0], [1], [0, 0], [0, 1], [1, 0]]}
HEADS = (
    ArmSpec("chain", "eagle1", K, "rejection", drafter_options={**UNTRAINED, "tree": "chain"}),
    ArmSpec("tree", "eagle1", 2, "multi_round", drafter_options={**UNTRAINED, **TREE}),
)


@pytest.fixture(scope="module")
def arms(tiny_target):
    return [*all_arms(tiny_target), *HEADS]


@pytest.fixture(scope="module")
def recorder():
    return TracedRecorder()


@pytest.fixture(scope="module", params=["in-order", "overlapped"])
def engines(request, tiny_target, arms, recorder):
    """Eager and captured."""
    settings = {"model": str(tiny_target), "schedule": request.param}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opened, "graphs_on", lambda device: Graphs(recorder))
        both = [open_engine(settings | {"graphs": graphs}, arms) for graphs in (False, True)]
    yield both
    for engine in both:
        engine.close()


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_every_arm_decodes_the_same_steps_and_nothing_is_captured_in_a_measured_one(
    engines, arms, recorder, temperature
):
    eager, captured = engines
    asked = requests(temperature)
    for arm in arms:
        captured.warm_up(arm.name, asked, 3)
        records, replays = recorder.records, recorder.replays
        expected = run(eager, arm.name, asked, 3)
        found = by_item(captured.run(arm.name, asked, 3))
        ticks = captured.drain_ticks()
        assert recorder.records == records
        assert recorder.replays > replays
        for item, trace in found.items():
            assert observed(trace) == observed(expected[item])
        decode = [tick for tick in ticks if tick.kind is TickKind.DECODE]
        assert not any(tick.graph for tick in ticks if tick.kind is TickKind.PREFILL)
        assert all(tick.graph for tick in decode)
        assert all(tick.padded_tokens >= tick.tokens for tick in ticks)
        # Twelve seats of K + 1 tokens at most, whatever a step needs of them.
        assert any(tick.padded_tokens > tick.tokens for tick in decode)
        assert graph_share(ticks).number() == 1


def test_without_a_warm_up_a_step_is_eager_and_says_so(tiny_target, monkeypatch):
    monkeypatch.setattr(opened, "graphs_on", lambda device: Graphs(TracedRecorder()))
    engine = open_engine({"model": str(tiny_target), "graphs": True}, [ArmSpec("plain")])
    assert engine.describe()["graphs"] is True
    list(engine.run("plain", requests(prompts=2), 2))
    ticks = engine.drain_ticks()
    assert not any(tick.graph for tick in ticks)
    assert not graph_share(ticks).known
    engine.close()


def test_a_cpu_is_told_before_anything_is_loaded(tmp_path):
    with pytest.raises(PrerequisiteError, match=r"target\.graphs captures CUDA graphs"):
        open_engine({"model": str(tmp_path / "missing"), "graphs": True}, [ArmSpec("plain")])
