"""`specbench leaderboard --verify` holds every number against the traces."""

from __future__ import annotations

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
    ("name", "old", "new"),
    [
        ("summary.json", '"value": 2.', '"value": 3.'),
        ("items.csv", ",ngram,", ",ngram ,"),
        ("table.csv", ",2.", ",3."),
        ("summary.md", "2.", "3."),
    ],
)
def test_a_hand_edited_file_fails(out, capsys, name, old, new):
    (run,) = out.iterdir()
    text = (run / name).read_text()
    assert old in text
    (run / name).write_text(text.replace(old, new, 1))
    assert call(["leaderboard", str(out), "--verify"]) == 1
    shown = capsys.readouterr().err
    assert f"its traces give another {name}\n" in shown
    assert "1 of 1 runs are not what their traces say" in shown
