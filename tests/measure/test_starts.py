"""The runner starts servers, labels what they decode, and stops them whatever happens."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from specbench.core.manifest import RecordId
from specbench.core.trace import Window
from specbench.engines.scripted import ScriptedEngine
from specbench.errors import SpecbenchError
from specbench.measure.runner import Outcome, Runner
from specbench.measure.stages import plan_stages
from tests.measure.fakes import ARMS, Memory, conditions, prompt

PROMPTS = [prompt(f"p{i}") for i in range(4)]


@dataclass(slots=True)
class Served(ScriptedEngine):
    """A scripted engine whose arms are servers: what was asked of it stands in ``log``."""

    log: list = field(default_factory=list)
    windows: list = field(default_factory=list)

    def begin(self, arms, start):
        self.log.append(("begin", tuple(arms), start))
        return {arm: {"seconds_to_ready": 1.5} for arm in arms}

    def end(self):
        self.log.append("end")

    def run(self, arm, requests, concurrency):
        self.log.append((arm, tuple(request.key.item for request in requests)))
        self.windows.append(Window(len(requests), None, "for the test"))
        yield from ScriptedEngine.run(self, arm, requests, concurrency)

    def drain_windows(self):
        drained, self.windows = self.windows, []
        return drained


def run(starts, together, settings=None, prompts=PROMPTS, done=None, begun=None, **options):
    engine, sink = Served(ARMS, options.pop("script", {})), Memory()
    settings = settings or conditions()
    stages = plan_stages({"suite": prompts}, settings, list(ARMS), starts, together)
    Runner(engine, settings, sink, done or {}, **options).run_stages(stages, begun)
    return engine, sink


def begins(engine):
    return [entry[1:] for entry in engine.log if entry[0] == "begin"]


def outcomes(traces):
    return {RecordId(t.key, t.arm, t.concurrency): Outcome(t.ok, t.text) for t in traces}


def test_together_every_stage_starts_all_arms_and_interleaves_them():
    engine, sink = run(2, together=True)
    assert begins(engine) == [(("plain", "ngram"), 0), (("plain", "ngram"), 1)]
    assert engine.log.count("end") == 2
    assert engine.log[-1] == "end"
    assert {(t.key.item, t.start) for t in sink.traces} == {
        ("p0", 0), ("p2", 0), ("p1", 1), ("p3", 1)
    }  # fmt: skip
    for trace in sink.traces:
        assert trace.unit.endswith(":s1") == (trace.start == 1)
    facts = {"seconds_to_ready": 1.5}
    starts = [("plain", 0, facts), ("ngram", 0, facts), ("plain", 1, facts), ("ngram", 1, facts)]
    assert sink.starts == starts


def test_apart_each_arm_decodes_everything_in_a_start_of_its_own():
    engine, sink = run(2, together=False)
    assert engine.log == [
        ("begin", ("plain",), 0), ("plain", ("p0",)), ("plain", ("p2",)), "end",
        ("begin", ("ngram",), 0), ("ngram", ("p0",)), ("ngram", ("p2",)), "end",
        ("begin", ("ngram",), 1), ("ngram", ("p1",)), ("ngram", ("p3",)), "end",
        ("begin", ("plain",), 1), ("plain", ("p1",)), ("plain", ("p3",)), "end",
    ]  # fmt: skip
    assert {(t.arm, t.start, t.order) for t in sink.traces} == {
        ("plain", 0, 0), ("ngram", 0, 1), ("ngram", 1, 0), ("plain", 1, 1)
    }  # fmt: skip


def test_apart_a_later_turn_sees_what_plain_answered_in_the_same_stage():
    talks = [prompt(f"p{i}", turns=2) for i in range(2)]
    script = {"accepted": {"ngram": [2, 0]}, "diverge": {"ngram": 0}}
    engine, sink = run(2, together=False, prompts=talks, script=script)
    plain = {t.key.item: t.text for t in sink.traces if t.arm == "plain" and t.key.turn == 0}
    second = [(arm, r) for arm, r in engine.calls if r.key.turn == 1]
    assert len(second) == 4
    for _, request in second:
        assert request.messages[1]["content"] == plain[request.key.item]


def test_windows_are_handed_on_with_arm_and_unit():
    _, sink = run(1, together=True, prompts=PROMPTS[:1])
    unit = "suite:T0.0:r0:c1:p0"
    window = (Window(1, None, "for the test"),)
    assert sorted(sink.window_units) == [("ngram", unit, window), ("plain", unit, window)]


@pytest.mark.parametrize(
    ("together", "left"),
    [(True, [(("plain", "ngram"), 1)]), (False, [(("ngram",), 1)])],
)
def test_a_resumed_run_starts_only_what_is_left(together, left):
    _, whole = run(2, together)
    kept = [t for t in whole.traces if not (t.arm == "ngram" and t.key.item == "p3")]
    engine, sink = run(2, together, done=outcomes(kept), resumed=1)
    assert begins(engine) == left
    assert [(t.arm, t.key.item, t.start, t.resumed) for t in sink.traces] == [("ngram", "p3", 1, 1)]
    engine, _ = run(2, together, done=outcomes(whole.traces))
    assert engine.log == []


def test_a_stage_that_was_begun_to_calibrate_is_not_begun_again_but_ended():
    warmed = []

    def warm(arm):
        warmed.append(arm)
        return {"first_request_ms": 7.0}

    begun = {"plain": {"first_request_ms": 1.0}}
    engine, sink = run(2, together=True, begun=begun, warm=warm)
    assert begins(engine) == [(("plain", "ngram"), 1)]
    assert engine.log.count("end") == 2
    assert warmed == ["plain", "ngram"]
    assert sink.starts[0] == ("plain", 0, {"first_request_ms": 1.0})
    assert sink.starts[1] == ("plain", 1, {"seconds_to_ready": 1.5, "first_request_ms": 7.0})


def test_an_arm_that_cannot_be_warmed_up_ends_itself_and_not_the_run():
    def warm(arm):
        if arm == "ngram":
            raise SpecbenchError("the server of arm ngram died")
        return {}

    _, sink = run(1, together=False, warm=warm)
    assert len(sink.traces) == 8
    assert sink.starts[1][2]["warm_up_failed"] == "the server of arm ngram died"


@pytest.mark.parametrize("together", [True, False])
def test_servers_are_stopped_when_the_run_breaks_off(together, monkeypatch):
    class Interrupted(Memory):
        def trace(self, trace):
            raise KeyboardInterrupt

    engine = Served(ARMS)
    stages = plan_stages({"suite": PROMPTS}, conditions(), list(ARMS), 2, together)
    with pytest.raises(KeyboardInterrupt):
        Runner(engine, conditions(), Interrupted(), {}).run_stages(stages)
    assert engine.log[-1] == "end"


def test_without_a_plain_arm_every_arm_sees_its_own_answers():
    settings = conditions(history="plain")
    engine, sink = Served(ARMS), Memory()
    stages = plan_stages({"suite": [prompt("a", turns=2)]}, settings, ["ngram"])
    Runner(engine, settings, sink, {}).run_stages(stages)
    assert engine.calls[1][1].messages[1]["content"] == sink.traces[0].text
