"""`specbench fidelity`, and what `run`, `rescore` and their summaries say of fidelity."""

from __future__ import annotations

import csv
import io
import json

import pytest

from specbench.cli.main import call
from specbench.engines.scripted import ScriptedEngine
from specbench.fidelity.eprocess import EProcess
from specbench.quality import sandbox, score
from specbench.quality.sandbox_outcome import Outcome, Ran
from tests.cli.scripted_runs import NGRAM, Bench
from tests.fidelity.evident import coin_evidence

ACCEPT = "accepted = {ngram = [3, 0, 2], second = [3]}\nstep_ms = {ngram = 15, second = 25}"
TWO = NGRAM + NGRAM.replace("arm.ngram", "arm.second")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def judge(bench, *arguments):
    return call(["fidelity", "last", "--out", str(bench.out), *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "no run given"),
        (["last", "--selftest"], 2, "--selftest judges the tests, not run last"),
        (["last", "--alpha", "0"], 2, "--alpha 0 is not between 0 and 1"),
        (["last", "--alpha", "1"], 2, "--alpha 1 is not between 0 and 1"),
        (["last", "--alpha", "nan"], 2, "--alpha nan is not between 0 and 1"),
        (["nowhere"], 3, "no run 'nowhere'"),
        (["--selftest", "--runs", "0"], 2, "--runs 0: at least 1 is needed"),
        (["--selftest", "--rows", "many"], 2, "'many' is not one of"),
        (["--selftest", "--top", "5"], 2, "--selftest takes no --top"),
        (["last", "--seed", "1"], 2, "without --selftest there is no use for --seed"),
        (["last", "--rows", "all", "--runs", "3"], 2, "no use for --rows, --runs"),
        (["last", "--top", "5"], 2, "without --reference server:URL there is no use for --top"),
        (["last", "--tokenizer", "t"], 2, "there is no use for --tokenizer"),
        (["last", "--draft", "d"], 2, "without --reference MODEL there is no use for --draft"),
        (["last", "--reference", "server:http://h", "--draft", "d"], 2, "no use for --draft"),
        (["last", "--reference", "m", "--reference-engine", "vllm"], 2, "--reference-engine"),
    ],
)
def test_wrong_usage_says_what_to_type(bench, capsys, arguments, code, message):
    assert call(["fidelity", *arguments, "--out", str(bench.out)]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""


def test_an_identical_run_exits_0(bench, capsys):
    bench.run(bench.write(items=3, arms=NGRAM, options=ACCEPT))
    capsys.readouterr()
    assert judge(bench) == 0
    shown = capsys.readouterr().out
    assert "evidence: outputs at temperature 0 beside plain's; the run recorded no rows" in shown
    assert "T=0 plain: not compared, plain is what others are compared with" in shown
    assert "T=0 ngram (rule rejection: proven): passed, 3 identical, 0 tie, 0 mismatch" in shown
    assert shown.rstrip().endswith("fidelity of lossless arms: passed")


def test_a_run_that_differs_exits_4_and_names_the_place(bench, capsys):
    options = ACCEPT + "\ndiverge = {ngram = 5}\nmargin = 9.0"
    bench.run(bench.write(items=3, arms=NGRAM, options=options))
    capsys.readouterr()
    assert judge(bench) == 4
    shown = capsys.readouterr().out
    assert "prompts/p00, index 5" in shown
    assert "fidelity of lossless arms: FAILED" in shown


def test_a_difference_without_logits_is_undecided(bench, capsys):
    bench.run(bench.write(items=3, arms=NGRAM, options=ACCEPT + "\ndiverge = {ngram = 5}"))
    capsys.readouterr()
    assert judge(bench) == 5
    assert "3 unjudged (prompts/" in capsys.readouterr().out


def test_a_run_that_shows_nothing_exits_5(bench, capsys):
    bench.run(bench.write(items=2, arms=NGRAM, options=ACCEPT, temperatures="[0.7]"))
    capsys.readouterr()
    assert judge(bench) == 5
    shown = capsys.readouterr().out
    assert "whole outputs: undecided" in shown
    assert "fidelity of lossless arms: undecided" in shown


@pytest.mark.parametrize(("other", "code"), [(0, 0), (100, 4)])
def test_repeats_let_whole_outputs_be_judged(bench, capsys, monkeypatch, other, code):
    def output(self, arm, request):
        """One of two outputs, by the request's seed; ``other`` moves those of one arm."""
        return [1 + request.seed % 2 + (other if arm == "ngram" else 0)] * 8

    monkeypatch.setattr(ScriptedEngine, "_output", output)
    experiment = bench.write(items=4, arms=NGRAM, options=ACCEPT, temperatures="[0.7]")
    bench.run(experiment, "--repeats", "8")
    capsys.readouterr()
    assert judge(bench, "--json") == code
    rows = strict(capsys.readouterr().out)["lines"]
    (mmd,) = [row for row in rows if row["test"] == "outputs:mmd"]
    # Half of the repeats of each.
    assert (mmd["arm"], mmd["n"]) == ("ngram", 4 * 4 * 2)
    assert mmd["verdict"] == ("passed" if code == 0 else "FAILED")
    assert (mmd["p"] <= 0.01) == (code == 4)
    judge(bench)
    shown = capsys.readouterr().out
    if code == 0:
        assert "whole outputs: passed (mmd: passed, n=16+16 outputs of 4 prompts, p=" in shown
        assert "would have caught TV 0." in shown
    else:
        assert "whole outputs: FAILED (mmd: FAILED, n=16+16 outputs of 4 prompts, p=0.0005" in shown


def test_outputs_without_a_common_word_cannot_pass_the_comparison_of_words(bench, capsys):
    """The scripted engine never repeats an output, so that only lengths and ends can differ."""
    experiment = bench.write(items=4, arms=NGRAM, options=ACCEPT, temperatures="[0.7]")
    bench.run(experiment, "--repeats", "6")
    capsys.readouterr()
    assert judge(bench, "--json") == 5
    rows = strict(capsys.readouterr().out)["lines"]
    words = {row["test"]: row for row in rows if row["arm"] == "ngram"}
    for name in ("outputs:mmd", "outputs:first_token"):
        assert (words[name]["verdict"], words[name]["detectable"]) == ("undecided", None)
    # Lengths alone pass no arm.
    assert (words["outputs:length"]["result"], words["outputs:length"]["verdict"]) == (
        *("passed", "undecided"),
    )
    assert words["outputs:length"]["detectable"] < 1


def test_forms_are_one_document_each(bench, capsys):
    experiment = bench.write(items=2, arms=TWO, options=ACCEPT, temperatures="[0.0, 0.7]")
    bench.run(experiment, "--concurrency", "1", "--concurrency", "2")
    capsys.readouterr()
    # Without probabilities and repeats nothing can be said at temperature 0.7.
    assert judge(bench, "--json") == 5
    document = strict(capsys.readouterr().out)
    assert list(document) == ["lines", "sentences", "notes", "outcome"]
    assert document["outcome"] == "undecided"
    assert document["notes"] == [
        "no evidence in this run: give --reference MODEL or server:URL, or --outputs with "
        "--repeats 4 or more"
    ]
    rows = document["lines"]
    assert {row["arm"] for row in rows} == {"plain", "ngram", "second"}
    assert {row["concurrency"] for row in rows} == {1, 2}
    columns = ["temperature", "concurrency", "arm", "rule", "lossless", "test", "n", "statistic"]
    columns += ["p", "detectable", "result", "verdict", "note"]
    assert list(rows[0]) == columns
    assert judge(bench, "--format", "csv") == 5
    table = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(table[0]) == columns
    assert len(table) == len(rows)
    assert judge(bench, "--format", "md") == 5
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("|") for line in lines)
    assert len(lines) == len(rows) + 2


def test_the_console_tells_concurrencies_apart(bench, capsys):
    experiment = bench.write(items=2, arms=NGRAM, options=ACCEPT)
    bench.run(experiment, "--concurrency", "1", "--concurrency", "2")
    capsys.readouterr()
    judge(bench)
    shown = capsys.readouterr().out
    assert "T=0 ngram c=2 (rule rejection: proven): passed" in shown
    header = next(line for line in shown.splitlines() if line.startswith("temperature"))
    assert header.split()[:3] == ["temperature", "concurrency", "arm"]


def test_a_changed_suite_is_refused_before_a_reference_loads(bench, capsys):
    bench.run(bench.write(items=2, arms=NGRAM, options=ACCEPT))
    suite = bench.folder / "prompts.jsonl"
    suite.write_text(suite.read_text().replace("word1", "other"))
    capsys.readouterr()
    assert judge(bench, "--reference", "no-such-model") == 2
    shown = capsys.readouterr().err
    assert "has changed since run" in shown
    assert "loading" not in shown


def test_selftest_in_seconds(capsys):
    arguments = ["fidelity", "--selftest", "--rows", "synthetic", "--runs", "3"]
    assert call(arguments) == 0
    shown = capsys.readouterr()
    assert "rejection, top-p 0.9: 3 runs" in shown.err
    assert "ok: false alarms in 0.0% of all runs" in shown.out
    assert call([*arguments, "--json"]) == 0
    rows = strict(capsys.readouterr().out)
    right = [row for row in rows if "limit" not in row]
    broken = [row for row in rows if "limit" in row]
    assert len(right) == 4
    assert {row["result"] for row in right} == {"0 false alarms"}
    assert {row["result"] for row in broken} == {"found in time"}
    assert {row["found"] for row in broken} == {"100%"}


def test_selftest_exits_4_where_the_tests_are_blind(capsys, monkeypatch):
    monkeypatch.setattr(EProcess, "detected_at", lambda self, alpha: None)
    assert call(["fidelity", "--selftest", "--rows", "synthetic", "--runs", "1"]) == 4
    shown = capsys.readouterr().out
    assert "OFF: " in shown
    assert "NOT found in time" in shown
    assert "never [never, never]" in shown


PYTHON = {"kind": "python", "entry_point": "f", "tests": "assert f(1) == 2\n"}


class FakeSandbox:
    """Every program passes."""

    def __init__(self):
        self.ran = 0

    def run(self, program):
        self.ran += 1
        return Ran(Outcome.PASSED, "")


@pytest.fixture
def coding(bench, monkeypatch):
    """An experiment whose answers are code, and the sandbox that would run it."""
    experiment = bench.write(items=3, arms=NGRAM, options=ACCEPT, temperatures="[0.7]")
    suite = bench.folder / "prompts.jsonl"
    rows = [json.loads(line) for line in suite.read_text().splitlines()]
    suite.write_text("".join(json.dumps({**row, "scoring": PYTHON}) + "\n" for row in rows))
    decoded = ScriptedEngine._decode

    def code(self, arm, request, concurrency):
        trace = decoded(self, arm, request, concurrency)
        trace.text = f"def f(x):\n    return x + 1  # {arm}"
        return trace

    monkeypatch.setattr(ScriptedEngine, "_decode", code)
    made = FakeSandbox()
    opened = []

    def open_sandbox(limits=None):
        opened.append(1)
        return made

    monkeypatch.setattr(score, "open_sandbox", open_sandbox)
    monkeypatch.setattr(sandbox, "open_sandbox", open_sandbox)
    return experiment, made, opened


def quality(bench):
    summary = json.loads((bench.last() / "summary.json").read_text())
    return {row["arm"]: row["quality"] for row in summary["rows"]}


def test_a_run_without_score_opens_no_sandbox(bench, coding, capsys):
    experiment, made, opened = coding
    assert bench.run(experiment) == 0
    assert call(["rescore", "last", "--out", str(bench.out)]) == 0
    assert (made.ran, opened) == (0, [])
    assert quality(bench)["ngram"] == {}
    assert "--score code:" not in capsys.readouterr().err
    rows = csv.DictReader(io.StringIO((bench.last() / "table.csv").read_text()))
    reasons = {row["reason"] for row in rows if row["metric"] == "quality_code"} - {""}
    assert "nothing to measure: code is not executed; --score code" in reasons


def test_a_scored_run_says_so_and_keeps_its_outcomes(bench, coding, capsys):
    experiment, made, opened = coding
    assert bench.run(experiment, "--score", "code") == 0
    shown = capsys.readouterr()
    assert "model-written code will be run, in a sandbox" in shown.err
    assert "code that passes its tests 1.00, plain 1.00" in " ".join(shown.out.split())
    # The comment makes the arms' programs differ.
    assert made.ran == 2
    before = quality(bench)
    assert before["ngram"]["quality_code"]["value"]["value"] == 1.0
    opened.clear()
    assert call(["rescore", "last", "--out", str(bench.out)]) == 0
    assert quality(bench) == before
    assert (made.ran, opened) == (2, [])
    (bench.last() / "scores.json").write_text("{")
    assert call(["rescore", "last", "--out", str(bench.out)]) == 2
    shown = capsys.readouterr().err
    assert "scores.json: cannot be read" in shown
    assert "remove it" in shown


@pytest.mark.parametrize("verb", ["rescore", "resume"])
def test_a_finished_run_can_be_scored_later(bench, coding, verb):
    experiment, made, _ = coding
    bench.run(experiment)
    if verb == "rescore":
        assert call(["rescore", "last", "--out", str(bench.out), "--score", "code"]) == 0
    else:
        assert bench.run("--resume", "last", "--score", "code") == 0
    assert made.ran == 2
    assert quality(bench)["ngram"]["quality_code"]["value"]["value"] == 1.0


def test_a_machine_without_walls_measures_nothing_it_cannot_score(bench, coding, monkeypatch):
    experiment, _, _ = coding

    def refuse(limits=None):
        raise sandbox.PrerequisiteError("cannot be cut off", "leave code unscored")

    monkeypatch.setattr(sandbox, "open_sandbox", refuse)
    assert bench.run(experiment, "--score", "code") == 3
    assert bench.engines == []


def coins(trace):
    """Evidence of a target with two equal tokens; one arm always emits the first of them."""
    hits = [trace.arm == "ngram" or i % 2 == 0 for i in range(len(trace.output_ids))]
    trace.evidence = coin_evidence(hits)
    return trace


@pytest.fixture
def biased(bench, monkeypatch, capsys):
    """A run with evidence in which the arm ngram is not the target, and what it printed."""
    decoded = ScriptedEngine._decode
    monkeypatch.setattr(ScriptedEngine, "_decode", lambda *args: coins(decoded(*args)))
    experiment = bench.write(items=20, arms=TWO, options=ACCEPT, temperatures="[0.7]")
    assert bench.run(experiment) == 0
    return bench, capsys.readouterr()


def test_a_broken_arm_is_named_while_the_run_goes_on(biased):
    _, shown = biased
    (line,) = [text for text in shown.err.splitlines() if "not the target's" in text]
    # 28 first choices in a row: see the wealth of a fair coin in tests/fidelity.
    assert line == (
        "arm ngram, temperature 0.7: the output is not the target's (E reached 1000 at token 27)"
    )
    words = " ".join(shown.out.split())
    assert "T=0.7 ngram: FAILED" in words
    assert "T=0.7 second: passed, n=160 tokens, p=" in words
    assert "second had the largest speed-up" in words
    assert "ngram had the largest speed-up" not in words


def test_its_own_evidence_judges_the_run_in_both_commands(biased, capsys):
    bench, _ = biased
    assert judge(bench) == 4
    shown = capsys.readouterr().out
    assert "T=0.7 ngram (rule rejection: proven): FAILED: " in shown
    summary = json.loads((bench.last() / "summary.json").read_text())
    words = {row["arm"]: row["identity"] for row in summary["rows"]}
    assert words == {"plain": "passed", "ngram": "FAILED", "second": "passed"}
    rows = csv.DictReader(io.StringIO((bench.last() / "table.csv").read_text()))
    found = {
        (row["arm"], row["metric"], row["stat"]): row
        for row in rows
        if row["metric"] in ("fidelity", "price")
    }
    assert float(found["ngram", "fidelity", "p"]["value"]) < 0.01
    assert float(found["second", "price", "tv"]["value"]) == 0.0
    assert "output_differs" in found["ngram", "fidelity", "p"]["guards"]


def test_an_arm_whose_greedy_output_differs_is_not_ranked(bench):
    options = ACCEPT + "\ndiverge = {ngram = 5}\nmargin = 9.0"
    assert bench.run(bench.write(items=3, arms=NGRAM, options=options)) == 0
    summary = json.loads((bench.last() / "summary.json").read_text())
    assert "no arm is ranked (output_differs)" in summary["sentence"]
    (row,) = [row for row in summary["rows"] if row["arm"] == "ngram"]
    assert row["guards"] == ["output_differs"]
    (warning,) = [text for text in summary["warnings"] if text.startswith("output_differs")]
    assert "do not quote the speed-up" in warning
    assert "not plain's output: 0 identical, 0 tie, 3 mismatch" in warning
