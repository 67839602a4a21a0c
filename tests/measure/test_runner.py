"""Histories, failures and what a run hands on (cases F4, H8)."""

from __future__ import annotations

import pytest

from specbench.core.manifest import RecordId
from specbench.core.trace import Finish
from specbench.engines.scripted import ScriptedEngine
from specbench.measure.plan import plan_units
from specbench.measure.runner import Outcome, Runner
from specbench.measure.stages import Stage, plan_stages
from tests.measure.fakes import ARMS, Memory, conditions, prompt, run

APART = {"accepted": {"ngram": [2, 0]}, "diverge": {"ngram": 0}}


def second_prompts(engine):
    return {arm: request.token_ids for arm, request in engine.calls if request.key.turn == 1}


def words(text):
    return ScriptedEngine({}).render([{"role": "user", "content": text}]).token_ids


def first_answers(sink):
    return {trace.arm: trace.text for trace in sink.traces if trace.key.turn == 0}


@pytest.mark.parametrize(
    ("history", "shown"),
    [
        ("own", lambda texts, arm: texts[arm]),
        ("plain", lambda texts, arm: texts["plain"]),
        ("fixed", lambda texts, arm: "recorded0"),
    ],
)
def test_second_turn_sees_the_answer_that_its_history_names(history, shown):
    engine, sink = run([prompt("a", turns=2)], script=APART, history=history)
    texts = first_answers(sink)
    assert texts["plain"] != texts["ngram"]
    for arm, ids in second_prompts(engine).items():
        assert ids == words(f"a turn0 {shown(texts, arm)} <end> a turn1")


@pytest.mark.parametrize("history", ["own", "plain", "fixed"])
def test_second_turn_is_skipped_if_its_own_first_turn_failed(history):
    script = {"fail": {"suite/a/0/ngram": "oom"}}
    engine, sink = run([prompt("a", turns=2)], script=script, history=history)
    found = {(trace.arm, trace.key.turn): trace for trace in sink.traces}
    assert found["ngram", 0].finish is Finish.OOM
    assert found["ngram", 1].finish is Finish.SKIPPED
    assert found["ngram", 1].error == "skipped: turn 1 failed"
    assert found["plain", 1].ok
    assert len(engine.calls) == 3


def test_an_engine_that_runs_out_of_memory_itself_loses_only_what_was_in_flight():
    script = {"fail": {"suite/b/0/plain": "raise"}}
    _, sink = run([prompt(name) for name in "abc"], script=script)
    finishes = {(t.arm, t.key.item): t.finish for t in sink.traces}
    assert finishes["plain", "b"] is Finish.OOM
    assert sum(finish is Finish.LENGTH for finish in finishes.values()) == 5


def test_other_engine_errors_are_not_swallowed(monkeypatch):
    def broken(self, arm, requests, concurrency):
        raise RuntimeError("shape mismatch")

    monkeypatch.setattr(ScriptedEngine, "run", broken)
    with pytest.raises(RuntimeError, match="shape mismatch"):
        run([prompt("a")])


def test_a_request_without_a_trace_becomes_an_error(monkeypatch):
    monkeypatch.setattr(ScriptedEngine, "run", lambda self, arm, requests, concurrency: iter(()))
    _, sink = run([prompt("a")])
    assert {trace.finish for trace in sink.traces} == {Finish.ERROR}
    assert {trace.error for trace in sink.traces} == {"the engine returned no trace"}


def test_seeds_are_equal_over_arms_and_differ_over_repeats():
    engine, _ = run([prompt("a"), prompt("b")], repeats=2)
    seeds = {}
    for _arm, request in engine.calls:
        key = request.key
        seeds.setdefault((key.item, key.repeat), set()).add(request.seed)
    assert all(len(found) == 1 for found in seeds.values())
    assert len({next(iter(found)) for found in seeds.values()}) == 4


def test_orders_and_units_are_recorded():
    _, sink = run([prompt(f"p{i}") for i in range(4)])
    by_unit = {}
    for trace in sink.traces:
        by_unit.setdefault(trace.unit, []).append((trace.order, trace.arm))
    assert all(sorted(order for order, _ in found) == [0, 1] for found in by_unit.values())
    firsts = [arm for found in by_unit.values() for order, arm in found if order == 0]
    assert firsts.count("plain") == 2
    assert [count for _, _, count in sink.tick_units if not count] == []


def test_what_is_done_is_not_run_again_but_still_answers_later_turns():
    whole_engine, whole = run([prompt("a", turns=2)])
    done = {
        RecordId(t.key, t.arm, 1): Outcome(t.ok, t.text) for t in whole.traces if t.key.turn == 0
    }
    engine, _ = run([prompt("a", turns=2)], done=done)
    assert {request.key.turn for _, request in engine.calls} == {1}
    assert second_prompts(engine) == second_prompts(whole_engine)


def test_a_run_that_is_told_to_end_does_so_between_units():
    settings, sink = conditions(), Memory()
    units = plan_units({"suite": [prompt(name) for name in "abc"]}, settings, list(ARMS))
    answers = iter(["", "", "enough is known", ""])
    runner = Runner(ScriptedEngine(ARMS), settings, sink, {}, enough=lambda: next(answers))
    runner.run_stages([Stage(0, True, tuple(ARMS), tuple(units))])
    # Asked before the stage and before each unit, and not again once it is enough.
    assert runner.stopped == "enough is known"
    assert sorted(trace.arm for trace in sink.traces) == ["ngram", "plain"]
    assert len(sink.tick_units) == 2


def test_servers_that_live_apart_end_between_units_too():
    settings, sink = conditions(), Memory()
    prompts = [prompt(name) for name in "abc"]
    (stage,) = plan_stages({"suite": prompts}, settings, list(ARMS), together=False)
    answers = iter(["", "", "", "time is over"])
    Runner(ScriptedEngine(ARMS), settings, sink, {}, enough=lambda: next(answers)).run_stages(
        [stage]
    )
    assert [(trace.arm, trace.key.item) for trace in sink.traces] == [
        ("plain", "a"),
        ("plain", "b"),
    ]
