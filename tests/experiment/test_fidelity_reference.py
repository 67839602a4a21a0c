"""A run judged by a reference model: evidence of its own cannot vouch for changed tokens."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specbench.core.manifest import UNKNOWN
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.experiment.fidelity.report import FAILED, PASSED, report
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.prepare import prepare
from specbench.experiment.session import Hooks, Session
from specbench.results.read import read_run
from tests.fidelity.evident import evidence

COUNT, ITEMS = 60, 6


def write_model(folder, seed):
    """A tiny model with a byte-level tokenizer."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    sizes = {"vocab_size": len(byte_level_tokens()), "max_position_embeddings": 512}
    model = build("llama", seed, **sizes, eos_token_id=0, bos_token_id=1, pad_token_id=0)
    model.save_pretrained(folder)
    write_tokenizer(folder)


@pytest.fixture(scope="module")
def native_run(tmp_path_factory, one_thread):
    """Plain and speculating outputs of a tiny model at two temperatures."""
    folder = tmp_path_factory.mktemp("judged")
    write_model(folder / "tiny", 0)
    suite = folder / "prompts.jsonl"
    rows = [{"id": f"p{i}", "category": "all", "turns": [f"say {i}"]} for i in range(ITEMS)]
    suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [f"workload.max_new_tokens={COUNT}", "workload.top_p=0.9", "workload.split=all"]
    flags = Flags(
        target=str(folder / "tiny"),
        drafter="ngram",
        k=3,
        suites=(str(suite),),
        temperatures=(0.0, 0.7),
    )
    prepared = prepare(load_experiment(None, flags, settings))
    return read_run(Session(prepared, folder / "results").run(Hooks()))


@pytest.fixture(scope="module")
def reference(native_run):
    from specbench.engines.replay import Replay

    return Replay({"model": native_run.manifest.identity.target})


def changed(found, arm, temperature, change):
    """The run with other tokens in some records; everything else stays as it was recorded."""
    traces = {
        record: replace(trace, output_ids=change(trace.output_ids))
        if (record.arm, record.key.temperature) == (arm, temperature)
        else trace
        for record, trace in found.traces.items()
    }
    return replace(found, traces=traces)


def verdicts(found):
    return {(line.arm, line.temperature): line.verdict for line in found.lines}


def test_an_honest_run_passes_before_the_reference(native_run, reference):
    seen = []
    found = report(native_run, reference, on_progress=lambda done, total: seen.append(done))
    assert found.outcome == PASSED
    assert seen == list(range(1, 4 * ITEMS + 1))
    assert verdicts(found)["ngram", 0.7] == PASSED
    assert verdicts(found)["ngram", 0.0] == PASSED
    tests = {line.test for line in found.lines if line.arm == "ngram" and line.temperature > 0}
    # Drafts are no business of a reference, so nothing is tested about them.
    assert tests == {"support", "pit", "surprisal", "eprocess"}
    first, *notes = found.notes
    assert first == f"evidence: {4 * ITEMS} outputs replayed; the run's weights"
    tokens = sum(
        len(trace.output_ids)
        for record, trace in native_run.traces.items()
        if record.key.temperature == 0 and record.arm == "plain"
    )
    text = f"{tokens} of {tokens} tokens are the reference's first choice"
    greedy = [line for line in found.lines if line.test == "reference"]
    assert {(line.arm, line.note, line.statistic) for line in greedy} == {
        ("plain", text, 0.0),
        ("ngram", text, 0.0),
    }
    differ = "T=0.7 ngram: log-probabilities differ from the run's own by"
    assert sum(note.startswith(differ) for note in notes) == 1


def test_tampered_tokens_fail_before_the_reference_alone(native_run, reference):
    def every_third(ids):
        return [65 if index % 3 == 2 else token for index, token in enumerate(ids)]

    broken = changed(native_run, "ngram", 0.7, every_third)
    assert report(broken, None).outcome == PASSED
    found = report(broken, reference)
    assert found.outcome == FAILED
    assert verdicts(found)["ngram", 0.7] == FAILED
    assert verdicts(found)["plain", 0.7] == PASSED


def test_outputs_that_are_too_sharp_fail(native_run, reference):
    """Greedy outputs recorded as sampled ones: inside the support, yet not drawn."""
    greedy = {
        record.key.item: trace.output_ids
        for record, trace in native_run.traces.items()
        if (record.arm, record.key.temperature) == ("plain", 0.0)
    }
    traces = {
        record: replace(trace, output_ids=greedy[record.key.item])
        if (record.arm, record.key.temperature) == ("ngram", 0.7)
        else trace
        for record, trace in native_run.traces.items()
    }
    found = report(replace(native_run, traces=traces), reference)
    assert verdicts(found)["ngram", 0.7] == FAILED
    support = next(line for line in found.lines if line.arm == "ngram" and line.test == "support")
    assert support.statistic == 0.0
    surprisal = next(
        line for line in found.lines if (line.arm, line.test) == ("ngram", "surprisal")
    )
    assert surprisal.statistic < -3


def test_a_greedy_defect_shared_with_plain_fails_before_the_reference(native_run, reference):
    def cut(ids):
        return [*ids[:-1], 65]

    both = changed(changed(native_run, "plain", 0.0, cut), "ngram", 0.0, cut)
    assert report(both, None).outcome == PASSED
    found = report(both, reference)
    assert found.outcome == FAILED
    tests = {(line.arm, line.test): line for line in found.lines if line.temperature == 0.0}
    assert tests["ngram", "identical"].verdict == PASSED
    for arm in ("plain", "ngram"):
        assert tests[arm, "reference"].verdict == FAILED
        assert 0 < tests[arm, "reference"].statistic <= ITEMS


def test_another_model_is_named(native_run, tmp_path):
    from specbench.engines.replay import Replay

    write_model(tmp_path, 1)
    found = report(native_run, Replay({"model": str(tmp_path)}))
    assert found.outcome == FAILED
    assert found.notes[0].endswith("OTHER weights than the run's")


class Stub:
    """A reference that gives every token the same evidence, or refuses it."""

    weight_hash = "stub"

    def __init__(self, real, tie_tolerance=0.01, refused=False):
        self.real = real
        self.tie_tolerance = tie_tolerance
        self.refused = refused

    def render(self, messages):
        return self.real.render(messages)

    def stops(self, strings=()):
        return self.real.stops(strings)

    def encode(self, text):
        return self.real.encode(text)

    def score(self, request, output_ids, ends=()):
        if self.refused:
            raise SpecbenchError("more tokens than its context", "hint")
        count = len(output_ids)
        return evidence(count, margin=[0.1] * count, runner_up=[65] * count)


def test_weights_that_are_not_known_are_said_to_be_so(native_run, reference):
    identity = replace(native_run.manifest.identity, weight_hash=UNKNOWN)
    manifest = replace(native_run.manifest, identity=identity)
    found = report(replace(native_run, manifest=manifest), Stub(reference))
    assert found.notes[0].endswith("; not known whether these are the run's weights")


@pytest.mark.parametrize(
    ("of_run", "of_reference", "verdict"),
    [(0.01, 0.02, FAILED), (0.01, 0.2, PASSED), (0.2, 0.01, PASSED)],
)
def test_a_tie_is_what_the_rounding_of_run_or_reference_can_flip(
    native_run, reference, of_run, of_reference, verdict
):
    """Every margin is 0.1 in the eyes of the stub, and token 65 its second choice."""
    other = changed(native_run, "ngram", 0.0, lambda ids: [*ids[:-1], 65])
    engine = {**native_run.manifest.engine, "tie_tolerance": of_run}
    judged = replace(other, manifest=replace(native_run.manifest, engine=engine))
    found = report(judged, Stub(reference, of_reference))
    assert verdicts(found)["ngram", 0.0] == verdict


def test_a_reference_that_can_replay_nothing_judges_nothing(native_run, reference):
    with pytest.raises(PrerequisiteError) as refused:
        report(native_run, Stub(reference, refused=True))
    assert refused.value.message == "no request of this run can be judged"
    assert f"{4 * ITEMS} not replayed: more tokens than its context" in refused.value.hint
