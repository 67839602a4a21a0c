"""Captured forwards in the native engine: the same steps, and ticks that say how they ran."""

from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Stops
from specbench.core.trace import TickKind
from specbench.core.warm_up import warm_up_key
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
    asked, padding = requests(temperature), 0
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
        padding += sum(tick.padded_tokens - tick.tokens for tick in decode)
        assert graph_share(ticks).number() == 1
    # Requests near their ends draft less than the others of their batch.
    assert padding > 0


def test_longer_requests_than_those_of_the_warm_up_run_from_graphs_too(
    tiny_target, recorder, monkeypatch
):
    """A warm-up decodes a few tokens, the measured requests many: they need a larger pool."""
    monkeypatch.setattr(opened, "graphs_on", lambda device: Graphs(recorder))
    draft = {"model": str(tiny_target)}
    arms = [
        ArmSpec("plain"),
        ArmSpec("draft", "draft_model", K, "rejection", drafter_options=draft),
    ]
    engine = open_engine({"model": str(tiny_target), "graphs": True}, arms)
    for arm in arms:
        engine.warm_up(arm.name, requests(prompts=3), 2)
    small = engine.pool_bytes
    longer = [replace(one, limits=Limits(265), stops=Stops(())) for one in requests(prompts=2)]
    for arm in arms:
        list(engine.run(arm.name, longer, 2))
        assert graph_share(engine.drain_ticks()).number() == 1
    assert engine.pool_bytes > small
    engine.close()


def test_a_pool_that_is_replaced_shrinks_on_neither_side(tiny_target):
    engine = open_engine({"model": str(tiny_target)}, [ArmSpec("plain")])
    list(engine.run("plain", requests(prompts=3), 3))
    longer = [replace(one, limits=Limits(265)) for one in requests(prompts=1)]
    list(engine.run("plain", longer, 1))
    grown = engine.pool_bytes
    list(engine.run("plain", requests(prompts=3), 3))
    assert engine.pool_bytes == grown
    engine.close()


def test_what_a_lookup_may_verify_is_captured_even_if_it_found_nothing(tiny_target, monkeypatch):
    monkeypatch.setattr(opened, "graphs_on", lambda device: Graphs(TracedRecorder()))
    arm = ArmSpec("lookup", "ngram", K, "rejection", drafter_options={"min_n": 1, "max_n": 3})
    engine = open_engine({"model": str(tiny_target), "graphs": True}, [arm])
    # One token each: the warm-up has not a single step with a draft.
    engine.warm_up("lookup", requests(count=3, prompts=1), 1)
    list(engine.run("lookup", requests(prompts=1), 1))
    ticks = engine.drain_ticks()
    assert max(tick.tokens for tick in ticks if tick.kind is TickKind.DECODE) > 1
    assert graph_share(ticks).number() == 1
    engine.close()


def test_nothing_is_captured_in_steps_that_are_timed_before_the_run(tiny_target, monkeypatch):
    """Their requests are those of a warm-up, their times are not."""
    recorder = TracedRecorder()
    monkeypatch.setattr(opened, "graphs_on", lambda device: Graphs(recorder))
    engine = open_engine({"model": str(tiny_target), "graphs": True}, [ArmSpec("plain")])
    timed = [
        replace(one, key=warm_up_key("tiny", one.key.item, 0.0)) for one in requests(prompts=2)
    ]
    list(engine.run("plain", timed, 2))
    assert recorder.records == 0
    engine.close()


def test_without_a_warm_up_a_step_is_eager_and_says_so(tiny_target, monkeypatch):
    monkeypatch.setattr(opened, "graphs_on", lambda device: Graphs(TracedRecorder()))
    engine = open_engine({"model": str(tiny_target), "graphs": True}, [ArmSpec("plain")])
    assert engine.describe()["graphs"] is True
    assert engine.describe()["captures"] == {"forwards": 0, "failed": {}}
    list(engine.run("plain", requests(prompts=2), 2))
    ticks = engine.drain_ticks()
    assert not any(tick.graph for tick in ticks)
    assert not graph_share(ticks).known
    engine.close()


def test_a_cpu_is_told_before_anything_is_loaded(tmp_path):
    with pytest.raises(PrerequisiteError, match=r"target\.graphs captures CUDA graphs"):
        open_engine({"model": str(tmp_path / "missing"), "graphs": True}, [ArmSpec("plain")])
