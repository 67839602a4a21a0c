"""`specbench gate --paired` on the scripted engine: it stops when decided, and says why."""

from __future__ import annotations

import json

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

TWO = NGRAM + '[arm.other]\ndrafter = "ngram"\nk = 3\n'
SAME = "accepted = {ngram = [3, 2, 3], other = [3, 2, 3]}\nstep_ms = {ngram = 12, other = 12}"
SLOW = SAME.replace("other = 12", "other = 15")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def gate(bench, options, *arguments, items=16, new="other"):
    experiment = bench.write(items=items, arms=TWO, options=options)
    names = ["--base", "ngram", "--new", new, "--out", str(bench.out)]
    return call(["gate", "--paired", str(experiment), *names, *arguments])


def shown(capsys):
    """What was printed, without the console's line breaks."""
    return " ".join(capsys.readouterr().out.split())


def stops(folder):
    lines = map(json.loads, (folder / "traces.jsonl").read_text().splitlines())
    return [line["reason"] for line in lines if line["record"] == "stopped"]


def test_a_slowed_arm_fails_early_and_the_run_can_be_continued(bench, capsys, tmp_path):
    junit = tmp_path / "junit.xml"
    assert gate(bench, SLOW, "--json", "--junit", str(junit)) == 4
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    # Steps of 12 ms against 15 ms, as many of them: four fifths as fast.
    assert rows["speedup"]["ratio"] == pytest.approx(0.8)
    assert rows["speedup"]["outcome"] == "fail"
    assert rows["accept_length"]["outcome"] == rows["success"]["outcome"] == "pass"
    assert 'failures="1"' in junit.read_text()
    (folder,) = bench.out.iterdir()
    # 10 of 16 prompts, on all three arms: the third of five looks, the first with 8 or more.
    assert len(bench.records()) == 30
    assert stops(folder) == ["decided at look 3 of 5"]
    assert call(["show", str(folder)]) == 0
    assert "stopped early: decided at look 3 of 5" in shown(capsys)

    names = [f"{folder}:ngram", f"{folder}:other"]
    assert call(["compare", *names, "--metric", "itl"]) == 0
    assert "was stopped early" in shown(capsys)

    assert bench.run("--resume", folder) == 0
    assert len(bench.records()) == 48
    after = shown(capsys)
    assert "stopped early" not in after
    assert "INCOMPLETE" not in after


def test_equal_arms_pass_early(bench, capsys):
    assert gate(bench, SAME) == 0
    told = shown(capsys)
    assert told.startswith("passed: ")
    assert "10 of 16 requests of every arm" in told


def test_what_is_not_decided_by_the_end_is_what_the_caller_makes_of_it(bench, capsys):
    fewer = SAME.replace("other = [3, 2, 3]", "other = [1, 2, 2]")
    asked = ("--check", "accept_length=0")
    assert gate(bench, fewer, *asked, items=8) == 5
    assert "all of it was run" in shown(capsys)
    (folder,) = bench.out.iterdir()
    assert not stops(folder)
    assert json.loads((folder / "summary.json").read_text())["complete"]


def test_time_is_over(bench, capsys):
    assert gate(bench, SAME, "--max-minutes", "1e-9", "--format", "md", items=8) == 5
    told = shown(capsys)
    assert "**not decided** coverage, T=0, load 1" in told
    assert "not decided after 1e-09 minutes" in told


@pytest.mark.parametrize(
    ("option", "what", "says"),
    [
        ("fail = {'prompts/p00/0/other' = 'error'}", "success", "scripted error"),
        ("diverge = {other = 3}\nmargin = 5.0", "fidelity", "index 3, margin 5"),
    ],
)
def test_broken_requests_and_outputs_end_it_at_once(bench, capsys, option, what, says):
    assert gate(bench, f"{SAME}\n{option}", "--json", items=8) == 4
    rows = json.loads(capsys.readouterr().out)
    (failed,) = [row for row in rows if row["outcome"] == "fail"]
    assert failed["what"] == what
    assert says in failed["why"]
    (folder,) = bench.out.iterdir()
    assert len(stops(folder)) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--new", "othr"], 2, "did you mean other"),
        (["--new", "ngram"], 2, "nothing to hold against each other"),
        (["--baseline", "main"], 2, "belong together"),
        (["--set", "arm.other.rule=lenient", "--set", "allow_lossy=true"], 4, "is lossy"),
    ],
)
def test_what_cannot_be_asked(bench, capsys, arguments, code, says):
    assert gate(bench, SAME, *arguments, items=3) == code
    assert says in capsys.readouterr().err


def test_the_other_options_need_it(bench, capsys):
    assert call(["gate", "last", "--base", "last", "--new", "a", "--out", str(bench.out)]) == 2
    assert "--paired, --base and --new belong together" in capsys.readouterr().err
