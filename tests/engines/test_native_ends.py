"""Where outputs of the native engine end: failures, stop strings, limits and refusals."""

from dataclasses import replace

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Stops
from specbench.core.trace import Finish
from specbench.engines.native import open_engine
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.metrics.identities import violations
from tests.engines.conftest import K
from tests.engines.native_runs import ARMS, observed, requests, run
from tests.models.families import build
from tests.models.tiny import byte_level_tokens, write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_an_unknown_drafter_option_is_refused_before_anything_runs(tiny_target):
    arm = ArmSpec("a", "ngram", 3, drafter_options={"max_m": 3})
    with pytest.raises(UsageError, match="max_m") as caught:
        open_engine({"model": str(tiny_target)}, [arm])
    assert "max_n" in caught.value.hint


def test_a_draft_that_cannot_run_packed_is_refused(tiny_target, tmp_path):
    draft = tmp_path / "softcapped"
    build("gemma2", vocab_size=len(byte_level_tokens())).save_pretrained(draft)
    write_tokenizer(draft)
    arm = ArmSpec("a", "draft_model", K, drafter_options={"model": str(draft)})
    with pytest.raises(PrerequisiteError, match="softcap"):
        open_engine({"model": str(tiny_target)}, [arm])


def test_an_empty_prompt_is_an_error_of_its_own(engine):
    asked = [replace(requests()[0], token_ids=())]
    (trace,) = run(engine, "plain", asked, 1).values()
    assert (trace.finish, trace.output_ids) == (Finish.ERROR, [])
    assert "without tokens" in trace.error


def test_a_prompt_that_does_not_fit_in_memory_is_lost_alone(engine, monkeypatch):
    asked = requests()
    target = engine._loops["ngram-rejection"]._target
    prefill = target.prefill

    def scarce(rows, taps):
        if any(row.request.key.item == "item-4" for row in rows):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return prefill(rows, taps)

    monkeypatch.setattr(target, "prefill", scarce)
    traces = run(engine, "ngram-rejection", asked, len(asked))
    assert [item for item, trace in traces.items() if not trace.ok] == ["item-4"]
    assert traces["item-4"].finish is Finish.OOM
    assert engine._pool.available == engine._pool.slabs


def test_a_failure_while_warming_up_ends_the_run_before_it_begins(engine, monkeypatch):
    def fail(rows, taps):
        raise RuntimeError("no kernel for this shape")

    monkeypatch.setattr(engine._loops["plain"]._target, "prefill", fail)
    with pytest.raises(SpecbenchError, match=r"arm plain failed while warming up: .*no kernel"):
        engine.warm_up("plain", requests()[:1], 1)
    assert engine._pool.available == engine._pool.slabs
