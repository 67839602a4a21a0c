"""A recorded run on a reference model: requests rebuilt as they were sent, and what differs."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

import pytest

from specbench.core.manifest import UNKNOWN
from specbench.core.trace import Evidence, Finish
from specbench.engines.replay import Replay
from specbench.errors import SpecbenchError, UsageError
from specbench.experiment.agreement import agreement
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.prepare import prepare
from specbench.experiment.rebuild import run_prompts
from specbench.experiment.reference import replay_run
from specbench.experiment.session import Hooks, Session
from specbench.results.read import read_run
from specbench.results.store import RunFolder
from tests.cli.scripted_runs import NGRAM, Bench

DIFFERENT = "not replayed: prompt differs (template, tokenizer or suite changed)"
DIVERGE = "diverge = {ngram = 2}\naccepted = {ngram = [3, 0, 2]}"


def evidence(count, **columns):
    absent = {f.name: [None] * count for f in fields(Evidence)}
    return Evidence(**{**absent, "position": list(range(count)), "drafted": [0] * count, **columns})


class ScriptedReference:
    """Renders as the scripted engine does; every token has log-probability -1."""

    weight_hash = "scripted"

    def __init__(self, engine, refused=()):
        self.engine = engine
        self.refused = refused
        self.asked = {}

    def render(self, messages):
        return self.engine.render(messages)

    def stops(self, strings=()):
        return self.engine.stops(strings)

    def encode(self, text):
        return [int(word.removeprefix("w")) for word in text.split()]

    def score(self, request, output_ids, ends=()):
        if request.key.item in self.refused:
            raise SpecbenchError("output id 9 has no token in the reference's vocabulary", "hint")
        self.asked.setdefault(request.key, []).append((request, tuple(output_ids)))
        count = len(output_ids) + bool(ends)
        return evidence(count, log_target=[-1.0] * count)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def recorded_run(bench, *settings, **changes):
    """A scripted run with two arms, as it is on disk, and a reference to replay it on."""
    experiment = bench.write(arms=NGRAM, options=changes.pop("options", DIVERGE), **changes)
    bench.run(experiment, *(part for text in settings for part in ("--set", text)))
    return read_run(RunFolder(bench.last())), ScriptedReference(bench.engines[-1])


@pytest.mark.parametrize("history", ["plain", "own", "fixed"])
def test_every_request_is_rebuilt_as_it_was_sent(bench, history):
    recorded, reference = recorded_run(
        bench,
        f"workload.history={history}",
        "workload.repeats=2",
        "workload.concurrency=[1, 2]",
        "workload.top_p=0.9",
        "workload.top_k=40",
        "workload.presence_penalty=0.5",
        "workload.stop=['###']",
        items=2,
        turns=3,
        temperatures="[0.0, 0.7]",
    )
    sent = bench.calls()
    assert len(sent) == len(recorded.traces) == 2 * 2 * 2 * 2 * 2 * 3
    replayed = replay_run(recorded, reference)
    assert replayed.reasons == {}
    assert list(replayed.traces) == list(recorded.traces)

    def what(request):
        return request.token_ids, request.sampling, request.stops, request.seed

    rebuilt = [what(request) for calls in reference.asked.values() for request, _ in calls]
    # The scripted engine plays each arm's later turns on the history that the run showed it.
    assert sorted(rebuilt, key=repr) == sorted((what(request) for _, request in sent), key=repr)
    prompts = {(arm, request.key): request.token_ids for arm, request in sent}
    third = [key for _, key in prompts if key.turn == 2]
    differ = {prompts["plain", key] != prompts["ngram", key] for key in third}
    assert differ == {history == "own"}


def test_copies_keep_everything_but_the_evidence(bench):
    recorded, reference = recorded_run(bench, items=2)
    before = {record: asdict(trace) for record, trace in recorded.traces.items()}
    seen = []
    replayed = replay_run(recorded, reference, lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    for record, trace in replayed.traces.items():
        assert trace.evidence.log_target == [-1.0] * len(trace.output_ids)
        assert replace(trace, evidence=Evidence()) == replace(
            recorded.traces[record], evidence=Evidence()
        )
    assert {record: asdict(trace) for record, trace in recorded.traces.items()} == before
    # The scripted engine records no evidence, so there is nothing to compare.
    assert replayed.agreement == {}


def test_each_record_that_cannot_be_replayed_has_its_reason(bench):
    recorded, reference = recorded_run(bench, items=6, turns=2)
    reference.refused = ("p05",)
    by_name = {(r.key.item, r.key.turn, r.arm): t for r, t in recorded.traces.items()}
    by_name["p00", 0, "plain"].prompt_hash = "0" * 64
    by_name["p01", 1, "ngram"].prompt_tokens += 1
    by_name["p02", 0, "plain"].text = "another answer"
    by_name["p04", 0, "plain"].finish = Finish.ERROR
    by_name["p04", 1, "plain"].finish = Finish.SKIPPED
    replayed = replay_run(recorded, reference)
    reasons = {(r.key.item, r.key.turn, r.arm): text for r, text in replayed.reasons.items()}
    unknown = "not replayed: output id 9 has no token in the reference's vocabulary"
    assert reasons == {
        ("p00", 0, "plain"): DIFFERENT,
        ("p01", 1, "ngram"): DIFFERENT,
        # The history of every arm shows plain's first answer.
        ("p02", 1, "plain"): DIFFERENT,
        ("p02", 1, "ngram"): DIFFERENT,
        ("p04", 1, "ngram"): "not replayed: turn 1 of arm plain has no recorded answer",
        **{("p05", turn, arm): unknown for turn in (0, 1) for arm in ("plain", "ngram")},
    }
    assert replayed.counts()[DIFFERENT] == 4
    assert replayed.counts()[unknown] == 4
    assert len(replayed.traces) == 24 - len(reasons) - 2


def test_a_changed_suite_is_refused_with_both_digests(bench):
    recorded, reference = recorded_run(bench, items=2)
    (use,) = recorded.manifest.suites
    suite = bench.folder / "prompts.jsonl"
    suite.write_text(suite.read_text().replace("word1", "other"))
    with pytest.raises(UsageError, match="has changed since run") as caught:
        replay_run(recorded, reference)
    shown = str(caught.value)
    assert use.digest in shown
    assert shown.count("sha256:") == 2
    assert reference.asked == {}
    with pytest.raises(UsageError, match="has changed since run"):
        run_prompts(recorded.manifest)


@pytest.mark.parametrize(("known", "same"), [("scripted", True), ("w", False), (UNKNOWN, None)])
def test_other_weights_are_allowed_and_reported(bench, known, same):
    recorded, reference = recorded_run(bench, items=1)
    identity = replace(recorded.manifest.identity, weight_hash=known)
    recorded.manifest = replace(recorded.manifest, identity=identity)
    replayed = replay_run(recorded, reference)
    assert replayed.same_weights is same
    assert len(replayed.traces) == 2


def test_agreement_is_taken_per_arm_and_temperature(bench):
    recorded, reference = recorded_run(bench, items=2, temperatures="[0.0, 0.7]")
    arms = [
        replace(arm, lossless="lossy") if arm.name == "ngram" else arm
        for arm in recorded.manifest.arms
    ]
    recorded.manifest = replace(recorded.manifest, arms=tuple(arms))
    for record, trace in recorded.traces.items():
        shift = {"plain": 0.5, "ngram": 0.25}[record.arm]
        count = len(trace.output_ids)
        if record.key.temperature:
            trace.evidence = evidence(count, log_target=[shift - 1.0] * count)
    found = replay_run(recorded, reference).agreement
    assert found.keys() == {("plain", 0.7), ("ngram", 0.7)}
    assert found["plain", 0.7].tokens == 16
    assert (found["plain", 0.7].mean, found["plain", 0.7].kl) == (0.5, 0.5)
    # Tokens of a lossy rule are not drawn from the run's target.
    assert (found["ngram", 0.7].mean, found["ngram", 0.7].kl) == (0.25, None)


def test_agreement_by_hand():
    own = evidence(4, log_target=[-1.0, -2.0, None, -3.0], margin=[None, 0.5, 2.0, None])
    other = evidence(4, log_target=[-1.5, -1.0, -4.0, None], margin=[None, 0.75, 1.0, None])
    found = agreement([(own, other)], from_target=True)
    assert (found.tokens, found.outside) == (2, 1)
    assert (found.mean, found.largest) == (0.75, 1.0)
    assert found.kl == -0.25
    # Differences 0.5 and -1.0: variance 1.125, over two tokens.
    assert found.kl_error == pytest.approx(0.75)
    assert found.largest_margin == 1.0


def test_agreement_of_records_that_cover_only_some_positions():
    own = evidence(2, position=[1, 3], log_target=[-1.0, -2.0])
    other = evidence(4, log_target=[-9.0, -1.0, -9.0, -2.5])
    found = agreement([(own, other)], from_target=False)
    assert (found.tokens, found.mean, found.largest) == (2, 0.25, 0.5)
    assert (found.kl, found.kl_error, found.largest_margin) == (None, None, None)


def write_model(folder, seed=0):
    """A tiny model with a byte-level tokenizer and room for two turns."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    sizes = {"vocab_size": len(byte_level_tokens()), "max_position_embeddings": 512}
    model = build("llama", seed, **sizes, eos_token_id=0, bos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    write_tokenizer(folder)


@pytest.fixture(scope="module")
def native_run(tmp_path_factory, one_thread):
    """Two-turn conversations of a tiny model at two temperatures, plain and with drafts."""
    folder = tmp_path_factory.mktemp("replayed")
    write_model(folder / "tiny")
    turns = {"turns": ["hello", "and then?"], "recorded": ["well"]}
    rows = [{"id": f"p{i}", "category": "all", "system": f"be {i}", **turns} for i in range(2)]
    suite = folder / "prompts.jsonl"
    suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [
        "workload.max_new_tokens=40",
        "workload.top_p=0.95",
        "workload.repetition_penalty=1.1",
        "workload.split=all",
    ]
    flags = Flags(
        target=str(folder / "tiny"),
        drafter="ngram",
        k=3,
        suites=(str(suite),),
        temperatures=(0.0, 0.7),
    )
    prepared = prepare(load_experiment(None, flags, settings))
    return read_run(Session(prepared, folder / "results").run(Hooks()))


def test_a_native_run_replays_to_its_own_evidence(native_run):
    model = native_run.manifest.identity.target
    replayed = replay_run(native_run, Replay({"model": model}))
    assert replayed.reasons == {}
    assert replayed.same_weights is True
    assert len(replayed.traces) == 2 * 2 * 2 * 2
    assert max(len(trace.output_ids) for trace in replayed.traces.values()) == 40
    for record, trace in replayed.traces.items():
        own = native_run.traces[record].evidence
        for name in ("log_target", "entropy", "pit_width", "margin", "runner_up"):
            ours, theirs = getattr(own, name), getattr(trace.evidence, name)
            assert [v is None for v in ours] == [v is None for v in theirs]
            known = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]
            assert all(abs(a - b) < 1e-4 for a, b in known)
    noise = replayed.agreement["plain", 0.7]
    assert noise.tokens > 100
    assert 0 < noise.mean <= noise.largest < 1e-4
    assert abs(noise.kl) < 1e-5
    assert replayed.agreement["plain", 0.0].largest_margin < 1e-4


def test_another_template_is_refused_record_by_record(native_run):
    model = native_run.manifest.identity.target
    replayed = replay_run(native_run, Replay({"model": model, "template": "none"}))
    assert replayed.traces == {}
    assert dict(replayed.counts()) == {DIFFERENT: len(native_run.traces)}


def test_other_weights_show_as_divergence_not_as_noise(native_run, tmp_path):
    write_model(tmp_path, seed=1)
    replayed = replay_run(native_run, Replay({"model": str(tmp_path)}))
    assert replayed.reasons == {}
    assert replayed.same_weights is False
    found = replayed.agreement["plain", 0.7]
    assert found.kl > 5 * found.kl_error > 0
    greedy = [trace for record, trace in replayed.traces.items() if record.key.temperature == 0]
    hits = [hit for trace in greedy for hit in trace.evidence.target_top_hit]
    assert sum(hits) < len(hits) / 2


def test_ids_outside_the_reference_are_refused_record_by_record(native_run):
    model = native_run.manifest.identity.target
    record = next(record for record in native_run.traces if record.arm == "ngram")
    trace = native_run.traces[record]
    beyond = replace(trace, output_ids=[*trace.output_ids[:-1], 5000])
    changed = replace(native_run, traces={**native_run.traces, record: beyond})
    replayed = replay_run(changed, Replay({"model": model}))
    assert list(replayed.reasons) == [record]
    assert "output id 5000" in replayed.reasons[record]
