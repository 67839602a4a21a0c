"""`specbench gate` and `specbench baseline` on the scripted engine: four verdicts, all forms."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

GOOD = "accepted = {ngram = [3, 2, 3]}\nstep_ms = {ngram = 12}"
WORSE = "accepted = {ngram = [1, 0, 1]}\nstep_ms = {ngram = 12}"


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """A baseline ``main``."""
    made = Bench(tmp_path, monkeypatch)
    assert made.run(made.write(items=10, arms=NGRAM, options=GOOD)) == 0
    assert call(["baseline", "set", "main", "last", "--out", str(made.out)]) == 0
    capsys.readouterr()
    return made


def again(bench, options=GOOD):
    """Another run; its name."""
    return bench.made(bench.write(items=10, arms=NGRAM, options=options)).name


def gate(bench, new, *arguments):
    return call(["gate", new, "--baseline", "main", "--out", str(bench.out), *arguments])


def test_nothing_changed(bench, capsys):
    new = again(bench)
    capsys.readouterr()
    assert gate(bench, new) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("passed: ")
    assert "not decided" not in shown


def test_a_draft_that_is_accepted_less_fails(bench, capsys, tmp_path):
    new = again(bench, WORSE)
    junit, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    capsys.readouterr()
    assert gate(bench, new, "--junit", str(junit), "--summary", str(summary), "--json") == 4
    rows = json.loads(capsys.readouterr().out)
    failed = [row for row in rows if row["outcome"] == "fail"]
    assert {row["what"] for row in failed} >= {"accept_length"}
    assert all(row["ratio"] < row["allowed"] for row in failed)
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert int(suite.get("failures")) == len(failed)
    assert int(suite.get("tests")) == len(rows)
    text = summary.read_text()
    assert text.startswith("### specbench gate FAILED: ")
    assert "- **FAILED** accept_length" in text
    assert "<details>" in text


def test_what_cannot_be_decided_is_what_the_caller_makes_of_it(bench, capsys):
    # Times of two occasions, without A/A runs.
    new = again(bench, GOOD.replace("12", "12.5"))
    capsys.readouterr()
    for choice, code in (("neutral", 5), ("fail", 4), ("pass", 0)):
        assert gate(bench, new, "--check", "itl=10%", "--on-inconclusive", choice) == code
        assert "not decided" in capsys.readouterr().out


def test_another_measurement_is_not_comparable(bench, capsys):
    experiment = bench.folder / "experiment.toml"
    made = bench.made(experiment, "--set", "workload.max_new_tokens=6")
    assert gate(bench, made.name) == 6
    assert "max_new_tokens" in capsys.readouterr().err


def test_calibrate_runs_the_experiment_again(bench, capsys):
    given = ["--baseline", "main", "--out", str(bench.out)]
    assert call(["gate", "--calibrate", "2", *given]) == 0
    capsys.readouterr()
    assert call(["baseline", "list", "--out", str(bench.out), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["A/A runs"]) == ("main", 2)
    assert gate(bench, again(bench), "--check", "accept_length=0") == 0
    assert "2 A/A runs" in capsys.readouterr().out


def test_show_a_baseline(bench, capsys):
    assert call(["baseline", "show", "main", "--out", str(bench.out)]) == 0
    assert "ngram" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["last"], 2, "what is held against what"),
        ([], 2, "what is held against what"),
        (["last", "--baseline", "mian"], 3, "no baseline 'mian'"),
        (["last", "--baseline", "main", "--check", "x=1"], 2, "--check x=1"),
        (["last", "--baseline", "main", "--junit", "no/such/file.xml"], 2, "no such folder"),
        (["last", "--calibrate", "2"], 2, "--calibrate is for a baseline"),
    ],
)
def test_what_cannot_be_asked(bench, capsys, arguments, code, says):
    assert call(["gate", *arguments, "--out", str(bench.out)]) == code
    assert says in capsys.readouterr().err
