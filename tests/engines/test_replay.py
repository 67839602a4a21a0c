"""Teacher-forced replay: the evidence of a run's outputs from a reference model alone."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Evidence
from specbench.engines.replay import CHUNK, Replay
from specbench.errors import SpecbenchError, UsageError
from specbench.models.locate import DEMO_MODEL
from tests.engines.native_runs import requests, run

pytestmark = pytest.mark.usefixtures("one_thread")

LONG = 2 * CHUNK + 9
"""Output tokens that need a prefill and three chunks, the last of them short."""

DRAFT_COLUMNS = ("log_draft", "overlap", "draft_top_target", "draft_top_hit")
SHARED = (
    *("position", "log_target", "entropy", "entropy_variance", "sum_squares", "pit_width"),
    *("target_top", "log_untempered", "support_margin", "margin", "runner_up"),
)
"""Columns that depend on the target and the tokens alone."""


@pytest.fixture(scope="module")
def replay(tiny_target):
    opened = Replay({"model": str(tiny_target)})
    yield opened
    opened.close()


def sampled(settings, count=LONG, prompts=3, minimum=0, stops=None):
    return [
        replace(r, sampling=settings, limits=Limits(count, minimum))
        for r in requests(settings.temperature, prompts=prompts, stops=stops)
    ]


def differences(own, replayed, names=SHARED):
    """Columns of two records that differ by more than rounding, with the first such place."""
    assert len(own) == len(replayed)
    found = {}
    for name in names:
        columns = zip(getattr(own, name), getattr(replayed, name), strict=True)
        for place, (ours, theirs) in enumerate(columns):
            close = ours is theirs or (
                ours is not None and theirs is not None and abs(ours - theirs) < 1e-4
            )
            if not close:
                found.setdefault(name, (place, ours, theirs))
    return found


@pytest.mark.parametrize(
    "settings",
    [
        Sampling(0.0),
        Sampling(0.7),
        Sampling(0.7, top_p=0.8),
        Sampling(1.0, top_k=9, min_p=0.02),
        Sampling(0.9, repetition_penalty=1.3, frequency_penalty=0.2, presence_penalty=0.4),
        Sampling(0.0, repetition_penalty=1.3, presence_penalty=0.4),
    ],
    ids=str,
)
@pytest.mark.parametrize(("minimum", "stops"), [(0, (0,)), (20, tuple(range(40)))])
def test_replay_of_a_plain_run_is_its_own_evidence(engine, replay, settings, minimum, stops):
    asked = sampled(settings, minimum=minimum, stops=Stops(stops))
    traces = run(engine, "plain", asked, 1)
    lengths = [len(trace.output_ids) for trace in traces.values()]
    assert min(lengths) > minimum
    assert minimum or max(lengths) == LONG
    for request in asked:
        trace = traces[request.key.item]
        found = replay.score(request, trace.output_ids)
        assert differences(trace.evidence, found, (*SHARED, "drafted", "pit_low")) == {}
        # A run of the target always takes its first choice at temperature 0.
        hits = [1] * len(found) if settings.greedy else trace.evidence.target_top_hit
        assert found.target_top_hit == hits


@pytest.mark.parametrize("arm", ["ngram-rejection", "draft_model-rejection"])
def test_nothing_counts_as_drafted_whoever_drafted_it(engine, replay, arm):
    asked = sampled(Sampling(0.8))
    for item, trace in run(engine, arm, asked, 1).items():
        request = next(r for r in asked if r.key.item == item)
        found = replay.score(request, trace.output_ids)
        assert found.drafted == [0] * len(trace.output_ids)
        assert all(set(getattr(found, name)) == {None} for name in DRAFT_COLUMNS)
        assert differences(trace.evidence, found, (*SHARED, "target_top_hit")) == {}
        assert sum(trace.evidence.drafted) > 0


def test_stop_strings_change_nothing_in_what_is_judged(engine, replay):
    (request,) = sampled(Sampling(0.0), count=30, prompts=1)
    (whole,) = run(engine, "plain", [request], 1).values()
    letter = next(c for c in whole.text[2:25] if c.isascii() and c.strip())
    stopped = replace(request, stops=Stops((0,), (letter,)))
    (cut,) = run(engine, "plain", [stopped], 1).values()
    assert len(cut.output_ids) < len(whole.output_ids)
    found = replay.score(stopped, cut.output_ids)
    assert differences(cut.evidence, found) == {}


@pytest.fixture(scope="module")
def eager(tiny_target):
    """Logits [n, V] of a whole sequence, by transformers alone."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(tiny_target, attn_implementation="eager").eval()

    @torch.inference_mode()
    def logits(ids):
        return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()

    return logits


@pytest.mark.parametrize("size", [1, 2, CHUNK, CHUNK + 1, CHUNK + 2, LONG])
def test_any_recorded_tokens_are_judged_by_one_plain_forward(replay, eager, size):
    (request,) = sampled(Sampling(0.7), prompts=1)
    recorded = [(11 * i + 5) % 250 for i in range(size)]
    found = replay.score(request, recorded)
    start = len(request.token_ids) - 1
    rows = eager([*request.token_ids, *recorded])[start : start + size]
    logs = torch.log_softmax(rows / 0.7, 1)
    target = logs.exp()
    own = logs[torch.arange(size), torch.tensor(recorded)]
    ahead = (target > own.exp()[:, None]).double()
    assert found.position == list(range(size))
    assert found.log_target == pytest.approx(own.tolist(), abs=1e-3)
    assert found.entropy == pytest.approx((-target * logs).sum(1).tolist(), abs=1e-4)
    assert found.sum_squares == pytest.approx((target**2).sum(1).tolist(), abs=1e-4)
    assert found.pit_low == pytest.approx((target * ahead).sum(1).tolist(), abs=1e-4)
    plain = torch.log_softmax(rows, 1)[torch.arange(size), torch.tensor(recorded)]
    assert found.log_untempered == pytest.approx(plain.tolist(), abs=1e-3)


def test_a_greedy_token_that_is_not_the_references_choice_shows(replay, eager):
    (request,) = sampled(Sampling(0.0), prompts=1)
    recorded = [(11 * i + 5) % 250 for i in range(CHUNK)]
    first = eager(request.token_ids)[-1].argmax().item()
    recorded[0] = first
    found = replay.score(request, recorded)
    start = len(request.token_ids) - 1
    rows = eager([*request.token_ids, *recorded])[start : start + CHUNK]
    values, ids = rows.topk(2, 1)
    assert found.margin == pytest.approx((values[:, 0] - values[:, 1]).tolist(), abs=1e-4)
    assert found.runner_up == ids[:, 1].tolist()
    assert found.target_top_hit == [int(a == b) for a, b in zip(ids[:, 0], recorded, strict=True)]
    assert found.target_top_hit[0] == 1
    assert sum(found.target_top_hit) < CHUNK // 2


def test_an_empty_output_has_no_evidence(replay):
    assert replay.score(requests(0.0)[0], []) == Evidence()


@pytest.mark.parametrize("token", [263, 10**9, -1])
def test_ids_outside_the_vocabulary_are_refused(replay, token):
    with pytest.raises(SpecbenchError, match=f"output id {token} has no token"):
        replay.score(requests(0.7)[0], [5, token, 6])


def test_padded_vocabulary_rows_are_outside_too(tmp_path):
    from tests.models.tiny import byte_level_tokens, tiny_model, write_tokenizer

    tokens = len(byte_level_tokens())
    tiny_model(rows=tokens + 1).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    padded = Replay({"model": str(tmp_path)})
    assert len(padded.score(requests(0.7)[0], [tokens - 1])) == 1
    with pytest.raises(SpecbenchError, match=f"output id {tokens} has no token"):
        padded.score(requests(0.7)[0], [tokens])


def test_more_tokens_than_the_context_are_refused(replay):
    (request,) = sampled(Sampling(0.7), prompts=1)
    room = replay.context_limit - len(request.token_ids)
    assert len(replay.score(request, [5] * room)) == room
    with pytest.raises(SpecbenchError, match=f"have {room + 1 + len(request.token_ids)} tokens"):
        replay.score(request, [5] * (room + 1))


def test_the_model_whose_context_is_short_is_named(tiny_target, tmp_path):
    """The reference knows 128 positions, the draft 40; 41 are too many for the draft alone."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    size = len(byte_level_tokens())
    build("llama", vocab_size=size, max_position_embeddings=40).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    (request,) = sampled(Sampling(0.7), prompts=1)
    output = [5] * (41 - len(request.token_ids))
    both = Replay({"model": str(tiny_target)}, {"model": str(tmp_path)})
    assert len(both.score(request, output[1:])) == len(output) - 1
    with pytest.raises(SpecbenchError, match="the draft's context 40") as caught:
        both.score(request, output)
    assert caught.value.hint == "name a draft with a longer context"
    # The other way round it is the reference's.
    short = Replay({"model": str(tmp_path)}, {"model": str(tiny_target)})
    with pytest.raises(SpecbenchError, match="the reference's context 40") as caught:
        short.score(request, output)
    assert caught.value.hint == "name a reference with a longer context"


def test_broken_logits_end_one_replay_with_a_reason(replay, monkeypatch):
    (request,) = sampled(Sampling(0.7), prompts=1)
    recorded = [5] * (CHUNK + 4)
    whole = replay.score(request, recorded)
    model = replay._opened.model
    forward = type(model).forward
    calls = []

    def broken(self, batch, taps=()):
        logits, states = forward(self, batch, taps)
        calls.append(batch.tokens)
        if len(calls) == 2:
            logits = logits.clone()
            logits[3, 7] = torch.nan
        return logits, states

    monkeypatch.setattr(type(model), "forward", broken)
    with pytest.raises(SpecbenchError, match="BrokenRowsError: the target's logits hold a NaN"):
        replay.score(request, recorded)
    assert replay.score(request, recorded) == whole


def test_an_empty_prompt_is_refused_with_a_reason(replay):
    with pytest.raises(SpecbenchError, match="without tokens"):
        replay.score(replace(requests(0.7)[0], token_ids=()), [5])


def test_the_pool_grows_with_the_request(tmp_path):
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    size = len(byte_level_tokens())
    build("llama", vocab_size=size, max_position_embeddings=700).save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    wide = Replay({"model": str(tmp_path)})
    short, long = requests(0.7)[0], replace(requests(0.7)[0], token_ids=(9, 8, 7) * 120)
    before = wide.score(short, [5] * 40)
    assert len(wide.score(long, [5] * 300)) == 300
    assert wide.score(short, [5] * 40) == before


def test_rounding_is_measured_and_described(replay, engine):
    assert 0 <= replay.verify_error < 1e-4
    assert replay.verify_error <= replay.tie_tolerance / 2 < 1e-3
    facts = replay.describe()
    assert facts["target"] == engine.describe()["target"]
    assert facts["target"]["weight_hash"] == replay.weight_hash
    assert facts["tie_tolerance"] == replay.tie_tolerance


@pytest.mark.model
def test_the_demo_model_replays_its_own_run():
    from specbench.engines.native import open_engine

    native = open_engine({"model": DEMO_MODEL}, [ArmSpec("plain"), ArmSpec("ngram", "ngram", 4)])
    reference = Replay({"model": DEMO_MODEL})
    messages = [{"role": "user", "content": "Count from one to nine."}]
    rendered = native.render(messages)
    assert reference.render(messages) == rendered
    assert reference.stops() == native.stops()
    for temperature, arm in ((0.0, "plain"), (0.8, "ngram")):
        key = RequestKey("suite", "count", 0, temperature, 0)
        sampling = Sampling(temperature, top_p=0.95)
        request = Request(key, rendered.token_ids, sampling, Limits(12), native.stops(), seed=3)
        (trace,) = native.run(arm, [request], 1)
        found = reference.score(request, trace.output_ids)
        assert len(found) > 8
        assert differences(trace.evidence, found) == {}


@pytest.fixture(scope="module")
def other_model(tmp_path_factory):
    """A draft of the same tokenizer with other weights and more logit rows than the target."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    folder = tmp_path_factory.mktemp("draft") / "tiny"
    sizes = {"vocab_size": len(byte_level_tokens()) + 8, "num_hidden_layers": 1}
    model = build("llama", 5, **sizes, eos_token_id=0, bos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def test_a_draft_model_is_fed_beside_the_target(tiny_target, other_model, replay, eager):
    from transformers import AutoModelForCausalLM

    own = AutoModelForCausalLM.from_pretrained(other_model, attn_implementation="eager").eval()
    (request,) = sampled(Sampling(0.7), prompts=1)
    recorded = [(11 * i + 5) % 250 for i in range(CHUNK + 3)]
    both = Replay({"model": str(tiny_target)}, {"model": str(other_model)})
    found = both.score(request, recorded)
    both.close()
    ids = [*request.token_ids, *recorded]
    place = len(request.token_ids) - 1
    with torch.inference_mode():
        drafted = own(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    target = eager(ids)
    width = target.shape[1]
    known = drafted[:, :width].clone()
    p = torch.softmax(target[place:-1] / 0.7, -1)
    q = torch.softmax(known[place:-1] / 0.7, -1)
    for row, token in enumerate(recorded):
        assert found.drafted[row] == 1
        assert found.log_draft[row] == pytest.approx(float(q[row, token].log()), abs=1e-3)
        overlap = float(torch.minimum(p[row], q[row]).sum())
        assert found.overlap[row] == pytest.approx(overlap, abs=1e-3)
        first = int(q[row].argmax())
        assert found.draft_top_target[row] == pytest.approx(float(p[row, first]), abs=1e-3)
        assert found.draft_top_hit[row] == int(token == first)
    # The target's own columns are those without a draft.
    assert differences(replay.score(request, recorded), found) == {}


def test_an_unseen_end_is_the_likeliest_of_several(replay, eager):
    (request,) = sampled(Sampling(0.7), prompts=1)
    for size in (0, 1, CHUNK, CHUNK + 1):
        recorded = [(11 * i + 5) % 250 for i in range(size)]
        row = eager([*request.token_ids, *recorded])[-1]
        ends = (17, 40, 90)
        best = max(ends, key=lambda token: float(row[token]))
        found = replay.score(request, recorded, ends)
        assert found == replay.score(request, [*recorded, best])
        assert len(found) == size + 1


def test_a_draft_with_another_tokenizer_is_refused(tiny_target, other_model, tmp_path):
    folder = tmp_path / "swapped"
    shutil.copytree(other_model, folder)
    path = folder / "tokenizer.json"
    known = json.loads(path.read_text())
    vocabulary = known["model"]["vocab"]
    first, second = list(vocabulary)[20:22]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(known))
    with pytest.raises(UsageError, match="different tokenizers"):
        Replay({"model": str(tiny_target)}, {"model": str(folder)})
