"""Where outputs of the assisted engine end: stops, limits, failures and refusals."""

from dataclasses import replace

import pytest

from specbench.core.request import Limits, Sampling, Stops
from specbench.core.trace import Finish
from specbench.engines.transformers_assisted.engine import open_engine
from specbench.errors import SpecbenchError, UsageError
from tests.engines.native_runs import requests, run
from tests.engines.transformers_assisted.runs import arm, broken

pytestmark = pytest.mark.usefixtures("one_thread")

ARMS = ["plain", "self-3", "ngram-3", "layer_skip-3"]


@pytest.mark.parametrize("name", ARMS)
def test_stop_strings_cut_text_ids_and_counts_as_natively(engine, assisted, name):
    (whole,) = run(engine, "plain", requests(prompts=1, count=30), 1).values()
    clean = [i for i in range(2, 25) if whole.text[i : i + 1].isascii() and whole.text[i].strip()]
    stop = whole.text[clean[0]]
    asked = requests(prompts=1, count=30, stops=Stops((0,), (stop,)))
    (native,) = run(engine, "plain", asked, 1).values()
    (cut,) = run(assisted, name, asked, 1).values()
    assert cut.finish is Finish.STOP
    assert (cut.text, cut.output_ids) == (native.text, native.output_ids)
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert broken(cut) == []


@pytest.mark.parametrize("name", ["plain", "self-5", "ngram-5", "layer_skip-5"])
@pytest.mark.parametrize(("context", "tokens"), [(17, 3), (16, 2), (15, 1), (14, 0)])
def test_a7_the_context_ends_the_output(assisted, name, context, tokens):
    asked = [replace(r, token_ids=(9,) * 14) for r in requests(prompts=1, context=context)]
    (trace,) = run(assisted, name, asked, 1).values()
    assert (len(trace.output_ids), trace.finish) == (tokens, Finish.LENGTH)
    assert sum(trace.arrivals.tokens) == tokens
    assert broken(trace) == []


def test_the_least_number_of_tokens_holds_ends_back(engine, assisted):
    (whole,) = run(engine, "plain", requests(prompts=1), 1).values()
    end = whole.output_ids[2]
    asked = [replace(r, limits=Limits(12, 6), stops=Stops((end,))) for r in requests(prompts=1)]
    (native,) = run(engine, "plain", asked, 1).values()
    assert len(native.output_ids) > 6
    for name in ARMS:
        (trace,) = run(assisted, name, asked, 1).values()
        assert (trace.output_ids, trace.finish) == (native.output_ids, native.finish)


def test_the_repetition_penalty_is_the_native_one(engine, assisted):
    asked = [
        replace(r, sampling=Sampling(0.0, repetition_penalty=1.7)) for r in requests(prompts=3)
    ]
    native = run(engine, "plain", asked, 1)
    assert {i: t.output_ids for i, t in native.items()} != {
        i: t.output_ids for i, t in run(engine, "plain", requests(prompts=3), 1).items()
    }
    for name in ARMS:
        traces = run(assisted, name, asked, 1)
        assert {i: t.output_ids for i, t in traces.items()} == {
            i: t.output_ids for i, t in native.items()
        }


@pytest.mark.parametrize("name", ["frequency_penalty", "presence_penalty"])
def test_penalties_that_the_library_lacks_are_refused(assisted, name):
    sampling = Sampling(0.0, **{name: 0.5})
    asked = [replace(r, sampling=sampling) for r in requests(prompts=1)]
    with pytest.raises(UsageError, match=name):
        assisted.warm_up("plain", asked, 1)
    with pytest.raises(UsageError, match=name):
        open_engine.check([Sampling(0.0), sampling], [1])
    (trace,) = run(assisted, "plain", asked, 1).values()
    assert trace.finish is Finish.ERROR
    assert name in trace.error
    assert trace.output_ids == []


def test_requests_side_by_side_are_refused(assisted, tiny_target):
    with pytest.raises(UsageError, match="one request at a time"):
        next(assisted.run("plain", requests(prompts=2), 2))
    with pytest.raises(UsageError, match="concurrency 4"):
        open_engine({"model": str(tiny_target), "concurrency": 4}, [arm("plain")])
    open_engine.check([Sampling(1.0, top_k=5)], [1])


@pytest.mark.parametrize(
    ("error", "finish"),
    [
        (RuntimeError("CUDA out of memory.\nTried to allocate"), Finish.OOM),
        (MemoryError(), Finish.OOM),
        (AttributeError("no such thing"), Finish.ERROR),
    ],
)
def test_a_failure_is_one_record_and_the_next_request_goes_on(assisted, monkeypatch, error, finish):
    asked = requests(prompts=2)
    whole = run(assisted, "self-3", asked, 1)
    generate = assisted._model.generate

    def failing(ids, **arguments):
        if ids[0].tolist() == list(asked[0].token_ids):
            raise error
        return generate(ids, **arguments)

    monkeypatch.setattr(assisted._model, "generate", failing)
    traces = run(assisted, "self-3", asked, 1)
    lost, kept = traces["item-0"], traces["item-1"]
    assert lost.finish is finish
    assert lost.error.startswith(type(error).__name__)
    assert "\n" not in lost.error
    assert kept.output_ids == whole["item-1"].output_ids
    with pytest.raises(SpecbenchError, match="failed while warming up"):
        assisted.warm_up("self-3", asked, 1)
    assert "_get_candidate_generator" not in vars(assisted._model)


def test_an_empty_prompt_is_an_error_of_its_own(assisted):
    (trace,) = run(assisted, "plain", [replace(requests()[0], token_ids=())], 1).values()
    assert (trace.finish, trace.output_ids) == (Finish.ERROR, [])
    assert "without tokens" in trace.error


def test_warming_up_leaves_no_ticks(assisted):
    list(assisted.run("plain", requests(prompts=1), 1))
    assisted.warm_up("self-2", requests(prompts=2), 1)
    kept = assisted.drain_ticks()
    assert len(kept) == len(run(assisted, "plain", requests(prompts=1), 1)["item-0"].output_ids)


def test_the_checkpoints_own_settings_stay_out(tiny_target, tmp_path, engine):
    import json
    import shutil

    folder = tmp_path / "opinionated"
    shutil.copytree(tiny_target, folder)
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text()) | {
        "do_sample": True,
        "temperature": 9.0,
        "repetition_penalty": 5.0,
        "no_repeat_ngram_size": 1,
        "max_length": 7,
    }
    file.write_text(json.dumps(settings))
    opened = open_engine({"model": str(folder)}, [arm("plain")])
    native = run(engine, "plain", requests(prompts=2), 1)
    for item, trace in run(opened, "plain", requests(prompts=2), 1).items():
        assert trace.output_ids == native[item].output_ids


def test_facts_and_memory(assisted, tiny_target, other_draft):
    facts = assisted.describe()
    assert facts["target"]["weight_hash"]
    assert facts["drafts"]["other-3"][0]["name"] == str(other_draft)
    assert "ngram-3" not in facts["drafts"]
    plain, other, skip = (assisted.memory(n) for n in ("plain", "other-3", "layer_skip-3"))
    # Two layers of 2 heads of 8 numbers, key and value, 4 bytes each; both drafts have one layer.
    assert plain.target_kv_per_token == 2 * 2 * 8 * 2 * 4
    assert (plain.draft_kv_per_token, plain.draft_weights) == (0, 0)
    assert other.draft_kv_per_token == skip.draft_kv_per_token == 2 * 8 * 2 * 4
    assert 0 < other.draft_weights < other.target_weights
    assert skip.draft_weights == 0
