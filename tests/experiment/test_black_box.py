"""Runs on servers: tokens from texts, ends that nobody shows, prompts that a server rendered."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.core.request import Sampling, Stops
from specbench.core.trace import Counted, Evidence, Finish
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.experiment.emitted import NOT_CANONICAL, emitted
from specbench.experiment.fidelity.report import FAILED, PASSED, UNDECIDED, report
from specbench.experiment.rebuild import rebuild, run_prompts
from specbench.experiment.reference import PROMPT_DIFFERS, replay_run
from specbench.fidelity.bounded import bounded_evidence
from specbench.results.read import read_run
from specbench.results.store import RunFolder
from tests.cli.scripted_runs import NGRAM, Bench
from tests.fidelity.evident import decoded
from tests.fidelity.table_model import TableModel

MODEL = TableModel()
COUNT = 40


class TableReference:
    """The table model as a server that lists ``top`` tokens; prompts as the scripted engine."""

    weight_hash = "unknown"
    tie_tolerance = 0.0
    ends = (0,)

    def __init__(self, engine, top=20, longer=0):
        self.engine = engine
        self.top = top
        self.longer = longer

    def render(self, messages, passed_on=None):
        found = self.engine.render(messages)
        return replace(found, token_ids=(*found.token_ids, *[1] * self.longer))

    def stops(self, strings=()):
        return replace(self.engine.stops(strings), token_ids=self.ends)

    def encode(self, text):
        return [int(word) for word in text.split()]

    def score(self, request, output_ids, ends=()):
        ids = [*output_ids, *ends[:1]]
        rows = MODEL.rows(first_token(request.key), ids, self.top, False)
        return bounded_evidence(rows, ids, request.sampling)


def first_token(key):
    """Which row the first output token of a request follows."""
    return int(key.item.removeprefix("p"))


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def recorded_run(bench, served, temperature=0.7, items=16, lenience=None, **settings):
    """A run whose plain arm is honest and whose arm ``ngram`` samples under ``served``."""
    wanted = [f"workload.{name}={value}" for name, value in settings.items()]
    experiment = bench.write(items=items, arms=NGRAM, temperatures=f"[{temperature}]")
    bench.run(experiment, *(part for text in wanted for part in ("--set", text)))
    recorded = read_run(RunFolder(bench.last()))
    asked = Sampling(temperature=temperature, top_p=settings.get("top_p", 1.0))
    for index, (record, trace) in enumerate(recorded.traces.items()):
        rng = np.random.default_rng([index, 3])
        own = served if record.arm == "ngram" else asked
        trace.output_ids = MODEL.decode(first_token(record.key), COUNT, own, rng)
        trace.text = " ".join(map(str, trace.output_ids))
        trace.arrivals.tokens = [1] * COUNT
        trace.arrivals.t_ns = list(range(COUNT))
        trace.evidence = Evidence()
        trace.finish = Finish.LENGTH
    return recorded, TableReference(bench.engines[-1])


def on_server(recorded, **engine):
    """The run as if a server had rendered its prompts."""
    identity = replace(recorded.manifest.identity, template_hash="server", weight_hash="unknown")
    manifest = replace(recorded.manifest, identity=identity)
    return replace(recorded, manifest=replace(manifest, engine={**manifest.engine, **engine}))


def verdicts(found):
    return {line.arm: line.verdict for line in found.lines if line.test == "eprocess"}


WARM = Sampling(temperature=0.7)


def test_an_honest_server_passes_with_its_bounds_told(bench):
    recorded, reference = recorded_run(bench, WARM)
    found = report(on_server(recorded), reference)
    assert found.outcome == PASSED
    assert found.notes[0].endswith("; not known whether these are the run's weights")
    assert "32 of 32 prompts have as many tokens on the server as for the reference" in found.notes
    (bound,) = [note for note in found.notes if note.startswith("T=0.7 ngram: log-prob")]
    assert "of the mass is not listed" in bound
    assert {line.result for line in found.lines if line.test == "pit"} == {PASSED}


@pytest.mark.parametrize(
    ("served", "settings"),
    [
        (Sampling(temperature=1.0), {}),
        (Sampling(temperature=0.0), {}),
        (WARM, {"top_p": 0.9}),
    ],
    ids=["temperature", "greedy", "top-p"],
)
def test_a_server_that_misapplies_settings_fails_and_plain_does_not(bench, served, settings):
    recorded, reference = recorded_run(bench, served, **settings)
    found = report(on_server(recorded), reference)
    assert found.outcome == FAILED
    assert verdicts(found) == {"plain": PASSED, "ngram": FAILED}


def test_lines_say_what_their_own_test_says(bench):
    recorded, reference = recorded_run(bench, Sampling(temperature=1.0))
    found = report(recorded, reference)
    lines = {line.test: line for line in found.lines if line.arm == "ngram"}
    assert {line.verdict for name, line in lines.items() if name != "support"} == {FAILED}
    assert lines["surprisal"].result == FAILED
    # Nothing is truncated, so that no token can lie outside.
    assert lines["support"].result == UNDECIDED


def test_bounds_that_spoil_a_test_make_it_unavailable(bench):
    recorded, reference = recorded_run(bench, Sampling(temperature=1.3), temperature=1.3)
    reference.top = 3
    found = report(recorded, reference)
    lines = {line.test: line for line in found.lines if line.arm == "ngram"}
    assert (lines["surprisal"].statistic, lines["surprisal"].p) == (None, None)
    assert lines["surprisal"].note.startswith("not available: its evidence is known to")
    assert found.outcome != FAILED


def test_texts_are_tokenised_by_the_reference(bench):
    recorded, reference = recorded_run(bench, WARM)
    with_ids = report(recorded, reference)
    for trace in recorded.traces.values():
        trace.output_ids, trace.counted = [], Counted.USAGE
    texts = {record: trace.text for record, trace in recorded.traces.items()}
    found = report(recorded, reference)
    assert [line.p for line in found.lines] == [line.p for line in with_ids.lines]
    assert any(note.startswith("32 outputs had no token ids") for note in found.notes)
    # One token more than the engine counted, in two texts of one arm.
    changed = [record for record in texts if record.arm == "ngram"][:2]
    for record in changed:
        recorded.traces[record].text += " 5"
    replayed = replay_run(recorded, reference)
    assert replayed.reasons == dict.fromkeys(changed, f"not replayed: {NOT_CANONICAL}")
    (note,) = [note for note in report(recorded, reference).notes if "left out" in note]
    # 14 of 16 are kept: 14 log(16 / 14) nats.
    assert note == (
        "T=0.7 ngram: 2 of 16 outputs are left out for their tokens, which may add up to 1.9 nats "
        "of evidence to a lossless arm"
    )


def test_text_against_plain_without_ids_or_a_reference(bench):
    recorded, _ = recorded_run(bench, Sampling(temperature=0.0), repeats=4, items=8)
    for trace in recorded.traces.values():
        trace.output_ids = []
    found = report(recorded, None)
    assert {line.verdict for line in found.lines if line.test == "outputs:mmd"} == {FAILED}
    # Where some have ids, texts are compared all the same.
    first = next(iter(recorded.traces.values()))
    first.output_ids = [7] * COUNT
    mixed = report(recorded, None)
    assert [line.p for line in mixed.lines] == [line.p for line in found.lines]


def test_another_chat_template_is_a_finding(bench):
    recorded, reference = recorded_run(bench, WARM)
    reference.longer = 3
    found = report(on_server(recorded), reference)
    assert found.outcome == FAILED
    line = next(line for line in found.lines if line.arm == "ngram")
    assert (line.test, line.n, line.statistic) == ("prompt", 16, 16.0)
    assert "16 of 16 prompts have another number of tokens" in line.note
    assert "-3 in the middle; the first 2 against 5" in line.note
    assert f"32 {PROMPT_DIFFERS}" in found.notes
    assert any("prompt FAILED" in sentence for sentence in found.sentences)
    # Of a run that rendered its prompts itself it only says that the reference does not fit.
    with pytest.raises(PrerequisiteError, match="no request of this run can be judged"):
        report(recorded, reference)


def test_a_second_start_token_is_a_finding_and_hinders_nothing(bench):
    recorded, reference = recorded_run(bench, WARM)
    for trace in recorded.traces.values():
        if trace.arm == "ngram":
            trace.effective = {"prompt_tokens": trace.prompt_tokens + 1}
    found = report(recorded, reference)
    prompts = [line for line in found.lines if line.test == "prompt"]
    assert [(line.arm, line.statistic) for line in prompts] == [("ngram", 16.0)]
    assert verdicts(found) == {"plain": PASSED, "ngram": PASSED}
    assert found.outcome == FAILED


def test_another_chat_template_is_a_finding_where_a_tokenizer_is_here_too(bench):
    """The record then holds our own count, and the server's beside it."""
    recorded, reference = recorded_run(bench, WARM)
    for trace in recorded.traces.values():
        if trace.arm == "ngram":
            trace.effective = {"prompt_tokens": trace.prompt_tokens + 7}
    run = on_server(recorded, route="chat")
    replayed = replay_run(run, reference)
    assert {(r.arm, why) for r, why in replayed.reasons.items()} == {("ngram", PROMPT_DIFFERS)}
    gaps = {(r.arm, length.server - length.reference) for r, length in replayed.prompts.items()}
    assert gaps == {("plain", 0), ("ngram", 7)}
    found = report(run, reference)
    prompts = [line for line in found.lines if line.test == "prompt"]
    assert [(line.arm, line.n, line.statistic) for line in prompts] == [("ngram", 16, 16.0)]
    assert "7 in the middle" in prompts[0].note
    assert found.outcome == FAILED


def test_kernels_for_weights_as_stored_do_not_compute_what_the_reference_does(bench):
    recorded, reference = recorded_run(bench, WARM, items=2)
    reference.weight_hash = "w"
    found = {}
    for dtype, weights in (("float32", "w"), ("float32", "v"), ("as_stored", "w")):
        identity = replace(recorded.manifest.identity, dtype=dtype, weight_hash=weights)
        run = replace(recorded, manifest=replace(recorded.manifest, identity=identity))
        found[dtype, weights] = replay_run(run, reference).same_weights
    assert found == {
        ("float32", "w"): True, ("float32", "v"): False, ("as_stored", "w"): None,
    }  # fmt: skip


def test_prompts_that_nobody_counted_are_taken_as_they_are(bench):
    recorded, reference = recorded_run(bench, WARM)
    reference.longer = 3
    for trace in recorded.traces.values():
        trace.prompt_tokens = 0
    found = report(on_server(recorded), reference)
    assert found.outcome == PASSED
    assert not any("prompts have" in note for note in found.notes)


def test_a_run_without_plain_is_judged_by_the_reference_alone(bench):
    recorded, reference = recorded_run(bench, WARM)
    arms = tuple(arm for arm in recorded.manifest.arms if arm.name != "plain")
    alone = {record: trace for record, trace in recorded.traces.items() if record.arm != "plain"}
    run = replace(recorded, manifest=replace(recorded.manifest, arms=arms), traces=alone)
    assert report(run, reference).outcome == PASSED
    found = report(run, None)
    assert found.outcome == UNDECIDED
    assert {line.note for line in found.lines} == {"the run has no plain arm"}


def test_fields_of_a_request_reach_the_template_or_leave_it_out(bench):
    recorded, reference = recorded_run(bench, WARM, items=2)
    prompts = run_prompts(recorded.manifest)
    name = next(iter(prompts))
    record = next(r for r in recorded.traces if (r.key.suite, r.key.item) == name)
    prompt, trace, seen = prompts[name], recorded.traces[record], []
    render = reference.render
    reference.render = lambda messages, passed_on=None: (seen.append(passed_on), render(messages))[
        1
    ]
    tools = {"tools": [{"type": "function"}]}
    prompts[name] = replace(prompt, passed_on=tools)
    assert rebuild(recorded, reference, prompts, record, trace).token_ids
    assert seen == [tools]
    prompts[name] = replace(prompt, passed_on={**tools, "response_format": {}, "stop": []})
    with pytest.raises(SpecbenchError, match="passed on response_format, stop"):
        rebuild(recorded, reference, prompts, record, trace)


def test_an_unknown_quantisation_fails_no_arm_that_is_as_far_off_as_plain(bench):
    """Greedy outputs of which some tokens are not the reference's first two choices."""
    cold = Sampling(temperature=0.0)
    recorded, reference = recorded_run(bench, cold, temperature=0.0)
    unknown = on_server(recorded)
    assert report(unknown, reference).outcome == PASSED
    by_arm = {"plain": [], "ngram": []}
    for record, trace in recorded.traces.items():
        by_arm[record.arm].append(trace)

    def break_some(arm, count):
        for trace in by_arm[arm][:count]:
            last = MODEL.logits[trace.output_ids[-2]]
            trace.output_ids[-1] = int(last.argmin())

    def lines(run):
        found = report(run, reference).lines
        return {line.arm: line for line in found if line.test == "reference"}

    break_some("plain", 5)
    break_some("ngram", 5)
    found = lines(unknown)
    assert (found["plain"].verdict, found["ngram"].verdict) == (UNDECIDED, UNDECIDED)
    assert "plain's are as often, 635/640" in found["ngram"].note
    assert found["ngram"].statistic == 5.0
    # The reference's own weights leave no such excuse.
    same = replace(unknown.manifest.identity, weight_hash="w")
    reference.weight_hash = "w"
    known = replace(unknown, manifest=replace(unknown.manifest, identity=same))
    assert lines(known)["plain"].verdict == FAILED
    reference.weight_hash = "unknown"
    for trace in by_arm["ngram"]:
        trace.output_ids = [int(MODEL.logits[token].argmin()) for token in trace.output_ids]
    assert lines(unknown)["ngram"].verdict == FAILED


class Words:
    """A tokenizer of numbers, with the given ends."""

    def __init__(self, *ends):
        self.ends = ends

    def encode(self, text):
        return [int(word) for word in text.split()]

    def stops(self, strings=()):
        return Stops(self.ends, tuple(strings))


def trace_of(ids, text, finish, counted=Counted.USAGE, **changes):
    found = decoded(max(len(ids), 2))
    found.output_ids, found.text, found.finish, found.counted = ids, text, finish, counted
    found.arrivals.tokens = [changes.pop("total", len(ids))]
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_tokens_behind_a_record():
    given = emitted(trace_of([1, 2], "1 2", Finish.LENGTH), Words(9))
    assert (given.ids, given.ends, given.retokenised) == ((1, 2), (), False)
    # An end that was shown is one of the ids.
    assert emitted(trace_of([1, 9], "1", Finish.EOS), Words(9)).ends == ()
    hidden = emitted(trace_of([1, 2], "1 2", Finish.EOS, hidden_end=1, total=3), Words(8, 9))
    assert (hidden.ids, hidden.ends) == ((1, 2), (8, 9))
    text = emitted(trace_of([], "1 2", Finish.EOS, total=3), Words(9))
    assert (text.ids, text.ends, text.retokenised, text.counted) == ((1, 2), (9,), True, True)
    guess = emitted(trace_of([], "1 2", Finish.LENGTH, Counted.ESTIMATED, total=7), Words(9))
    assert (guess.ids, guess.counted) == ((1, 2), False)
    empty = emitted(trace_of([], "", Finish.EOS, total=1), Words(9))
    assert (empty.ids, empty.ends) == ((), (9,))


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (trace_of([], "1 2", Finish.LENGTH, total=3), "another number of tokens"),
        (trace_of([], "1 2", Finish.EOS, total=2), "another number of tokens"),
        (trace_of([1], "1", Finish.EOS, hidden_end=1, total=2), "none is known to end"),
    ],
)
def test_tokens_that_cannot_be_known(trace, message):
    words = Words() if "none" in message else Words(9)
    with pytest.raises(SpecbenchError, match=message):
        emitted(trace, words)
