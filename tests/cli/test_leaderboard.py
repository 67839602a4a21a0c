"""`specbench leaderboard --verify` holds every number against the traces."""

from __future__ import annotations

import re
from shutil import copytree

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

OPTIONS = "accepted = {ngram = [3, 2, 3]}\nstep_ms = {ngram = 12}"


@pytest.fixture
def out(tmp_path, monkeypatch, capsys):
    bench = Bench(tmp_path, monkeypatch)
    assert bench.run(bench.write(items=5, arms=NGRAM, options=OPTIONS)) == 0
    capsys.readouterr()
    return bench.out


def test_what_the_traces_say(out, capsys):
    assert call(["leaderboard", str(out), "--verify"]) == 0
    assert "| 1 | ngram | scripted |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "old", "new", "where"),
    [
        ("summary.json", '"value": 2.', '"value": 3.', ".value: 3."),
        ("items.csv", ",ngram,", ",ngram ,", "arm: ngram  in the file, ngram from the"),
        ("table.csv", ",2.", ",3.", "value: 3."),
        ("summary.md", "2.", "3.", "line "),
        ("summary.json", "{", "", "no JSON: "),
        ("summary.json", '"title": "', '"title": "my ', "title: "),
        ("summary.md", "# ", "", "line 1: "),
    ],
)
def test_a_hand_edited_file_fails(out, capsys, name, old, new, where):
    (run,) = out.iterdir()
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new, 1))
    assert call(["leaderboard", str(out), "--verify"]) == 1
    shown = capsys.readouterr().err.replace("\n", " ")
    assert f"{name} is not what its traces say: " in shown
    assert where in shown
    assert shown.count("is not what its traces say") == 1
    assert "1 of 1 runs are not what their traces say" in shown


def test_a_file_that_is_gone_fails(out, capsys):
    (run,) = out.iterdir()
    (run / "table.csv").unlink()
    assert call(["leaderboard", str(out), "--verify"]) == 1
    assert "table.csv is not what its traces say: cannot be read" in capsys.readouterr().err


def test_damaged_traces_cannot_be_verified_and_what_has_no_summary_is_not(out, capsys):
    (run,) = out.iterdir()
    copytree(run, out / "unfinished")
    (out / "unfinished" / "summary.json").unlink()
    assert call(["leaderboard", str(out), "--verify"]) == 0
    assert "unfinished: not verified" in capsys.readouterr().err
    lines = (run / "traces.jsonl").read_text().split("\n")
    (run / "traces.jsonl").write_text("\n".join([lines[0], "{", *lines[2:]]))
    assert call(["leaderboard", str(out), "--verify"]) == 1
    shown = capsys.readouterr().err.replace("\n", " ")
    assert "cannot be verified: " in shown
    assert "traces.jsonl, line 2: damaged" in shown
    assert "1 of 1 runs" in shown


def test_numbers_of_another_processor_are_what_the_traces_say(out):
    """The last digits of every fraction are others there, and of counts none."""
    (run,) = out.iterdir()
    changed = 0
    for name in ("items.csv", "table.csv", "summary.json"):
        text = (run / name).read_text()
        other = re.sub(r"(?<![\w.-])\d+\.\d{6,}(?![\w.])", lambda found: nudged(found[0]), text)
        changed += other != text
        (run / name).write_text(other)
    assert changed >= 2
    assert call(["leaderboard", str(out), "--verify"]) == 0


def nudged(number):
    return repr(float(number) * (1 + 1e-13))
