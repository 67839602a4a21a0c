"""The native engine on a tiny model: identities, continuous batching, failures, stops, limits."""

from dataclasses import replace

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Finish, TickKind
from specbench.engines.native import open_engine
from specbench.errors import UsageError
from specbench.metrics.identities import tick_violations, violations
from tests.engines.conftest import OPTIONS, RULES, K

pytestmark = pytest.mark.usefixtures("one_thread")

ARMS = ["plain", *(f"{drafter}-{rule}" for drafter in OPTIONS for rule in RULES)]
COUNT = 12


def requests(temperature=0.0, count=COUNT, prompts=9, stops=None, context=None):
    return [
        Request(
            RequestKey("tiny", f"item-{i}", 0, temperature, 0),
            tuple((7 * i + 5 * j * (i % 3)) % 200 + 3 for j in range(2 + 3 * (i % 4))),
            Sampling(temperature),
            Limits(count - i % 3, context=context),
            stops or Stops((0,)),
            seed=i,
        )
        for i in range(prompts)
    ]


def by_item(traces):
    return {trace.key.item: trace for trace in traces}


def run(engine, arm, asked, concurrency):
    traces = by_item(engine.run(arm, asked, concurrency))
    engine.drain_ticks()
    return traces


def observed(trace):
    """What must not depend on who shares the batch: everything but ticks and times."""
    steps = replace(trace.steps, tick=[])
    return trace.output_ids, trace.text, trace.finish, steps


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("arm", ARMS)
def test_each_request_equals_its_own_batch_of_one(engine, arm, temperature):
    asked = requests(temperature)
    alone = by_item([next(iter(engine.run(arm, [one], 1))) for one in asked])
    engine.drain_ticks()
    for concurrency in (1, 3, 8):
        together = run(engine, arm, asked, concurrency)
        assert together.keys() == alone.keys()
        for item, trace in together.items():
            assert violations(trace, k_max=K) == []
            assert observed(trace) == observed(alone[item])
            assert trace.concurrency == concurrency
    assert engine._pool.available == engine._pool.slabs


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("arm", ARMS[1:])
def test_arms_that_must_repeat_plain_do(engine, arm, temperature):
    if temperature and not arm.endswith("target_match"):
        pytest.skip("rejection has plain's law at T > 0, not its tokens")
    asked = requests(temperature)
    plain, other = run(engine, "plain", asked, 3), run(engine, arm, asked, 3)
    assert {i: t.output_ids for i, t in plain.items()} == {
        i: t.output_ids for i, t in other.items()
    }


def test_ticks_are_prefill_or_decode_and_cover_every_step(engine):
    asked = requests()
    traces = list(engine.run("ngram-rejection", asked, 3))
    ticks = engine.drain_ticks()
    assert tick_violations(ticks) == []
    decode = {t.index: t.rows for t in ticks if t.kind is TickKind.DECODE}
    rows = dict.fromkeys(decode, 0)
    for trace in traces:
        for index in trace.steps.tick:
            rows[index] += 1
    assert rows == decode
    assert sum(t.rows for t in ticks if t.kind is TickKind.PREFILL) == len(asked)
    assert max(decode.values()) == 3


@pytest.mark.parametrize("concurrency", [1, 3])
def test_out_of_memory_in_one_item_leaves_the_others(engine, monkeypatch, concurrency):
    asked = requests()
    whole = run(engine, "ngram-rejection", asked, concurrency)
    loop, verify = engine._loops["ngram-rejection"], engine._loops["ngram-rejection"]._target.verify

    def scarce(rows, tree, taps):
        if any(row.request.key.item == "item-4" for row in rows):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return verify(rows, tree, taps)

    monkeypatch.setattr(loop._target, "verify", scarce)
    traces = run(engine, "ngram-rejection", asked, concurrency)
    assert len(traces) == len(asked)
    assert traces["item-4"].finish is Finish.OOM
    assert "out of memory" in traces["item-4"].error
    hit = [item for item, trace in traces.items() if not trace.ok]
    # Requests that shared the failed forward end with it; at concurrency 1 it is alone.
    assert len(hit) <= concurrency
    for item in traces.keys() - set(hit):
        assert observed(traces[item]) == observed(whole[item])
    assert engine._pool.available == engine._pool.slabs
    monkeypatch.undo()
    again = run(engine, "ngram-rejection", asked, concurrency)
    assert {i: t.output_ids for i, t in again.items()} == {
        i: t.output_ids for i, t in whole.items()
    }


@pytest.mark.parametrize(
    ("error", "finish"),
    [
        (MemoryError(), Finish.OOM),
        (RuntimeError("shape\nmismatch"), Finish.ERROR),
        (IndexError("index out of range in self"), Finish.ERROR),
    ],
)
def test_a_failed_prefill_is_a_record_with_one_line(engine, monkeypatch, error, finish):
    def fail(rows, taps):
        raise error

    monkeypatch.setattr(engine._loops["plain"]._target, "prefill", fail)
    traces = run(engine, "plain", requests()[:2], 1)
    for trace in traces.values():
        assert (trace.finish, trace.output_ids) == (finish, [])
        assert trace.error.startswith(type(error).__name__)
        assert "\n" not in trace.error
    assert engine._pool.available == engine._pool.slabs


def test_a_caller_that_stops_early_leaves_no_slab_behind(engine):
    running = engine.run("plain", requests(), 3)
    next(running)
    running.close()
    engine.drain_ticks()
    assert engine._pool.available == engine._pool.slabs


@pytest.mark.parametrize("arm", ["plain", "ngram-rejection", "draft_model-rejection"])
def test_stop_strings_cut_text_ids_and_counts_together(engine, arm):
    (whole,) = run(engine, "plain", requests(prompts=1, count=30), 1).values()
    clean = [i for i in range(2, 25) if whole.text[i : i + 1].isascii() and whole.text[i].strip()]
    stop = whole.text[clean[0]]
    asked = requests(prompts=1, count=30, stops=Stops((0,), (stop,)))
    (cut,) = run(engine, arm, asked, 1).values()
    assert cut.finish is Finish.STOP
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.output_ids == whole.output_ids[: len(cut.output_ids)]
    assert violations(cut, k_max=K) == []
    assert len(cut.evidence) == sum(cut.arrivals.tokens) == len(cut.output_ids)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize(("context", "tokens"), [(16, 2), (15, 1), (14, 0), (13, 0)])
def test_a7_the_context_ends_the_output(engine, arm, context, tokens):
    asked = [replace(r, token_ids=(9,) * 14) for r in requests(prompts=1, context=context)]
    (trace,) = run(engine, arm, asked, 1).values()
    assert (len(trace.output_ids), trace.finish) == (tokens, Finish.LENGTH)
    assert sum(trace.steps.verified) == 0


def test_no_new_tokens_are_an_empty_output(engine):
    asked = [replace(r, limits=Limits(0)) for r in requests(prompts=2)]
    for trace in run(engine, "plain", [*asked, requests(prompts=3)[2]], 2).values():
        assert violations(trace) == []
        assert trace.finish is Finish.LENGTH
    traces = run(engine, "plain", asked, 2)
    assert [t.output_ids for t in traces.values()] == [[], []]


def test_warm_up_leaves_no_ticks_and_keeps_earlier_ones(engine):
    asked = requests(prompts=2)
    list(engine.run("plain", asked, 1))
    before = engine.drain_ticks()
    engine._recorder.restore(before)
    engine.warm_up("ngram-rejection", asked, 2)
    after = engine.drain_ticks()
    assert after == before
    assert engine.drain_ticks() == []
    outputs = run(engine, "plain", asked, 1)
    assert len(outputs) == 2


def test_an_unknown_drafter_option_is_refused_before_anything_runs(tiny_target):
    arm = ArmSpec("a", "ngram", 3, drafter_options={"max_m": 3})
    with pytest.raises(UsageError, match="max_m") as caught:
        open_engine({"model": str(tiny_target)}, [arm])
    assert "max_n" in caught.value.hint


def test_memory_and_description_name_both_models(engine):
    facts = engine.describe()
    assert set(facts["drafts"]) == {"draft_model-rejection", "draft_model-target_match"}
    memory = engine.memory("draft_model-rejection")
    # Two layers, two heads of 8 numbers, keys and values, 4 bytes.
    assert memory.target_kv_per_token == memory.draft_kv_per_token == 2 * 2 * 8 * 2 * 4
    assert memory.draft_weights == memory.target_weights > 0
    assert engine.memory("layer_skip-rejection").draft_kv_per_token == 0
    assert engine.tie_tolerance < 1e-3
